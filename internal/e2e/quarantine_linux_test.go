package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
)

// exec has the user run a program in a room, live, and allow it.
func (u user) exec(workspace string, args ...string) palyra.Outcome {
	u.t.Helper()
	return u.execAnswered(workspace, []palyra.Answer{palyra.AnswerAllow}, append([]string{"--live"}, args...)...)
}

// execAnswered has the user run a program in a room and answer what is asked about it.
func (u user) execAnswered(workspace string, answers []palyra.Answer, args ...string) palyra.Outcome {
	u.t.Helper()
	cmd := u.as("palyra", append([]string{"exec", "--json", "--tier", "c", "--workspace", workspace}, args...)...)
	cmd.Dir = workspace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	for _, a := range answers {
		u.answer(a)
	}
	_ = cmd.Wait()
	var out palyra.Outcome
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil || out.Outcome != palyra.OutcomeFinished {
		u.t.Fatalf("%v: %s%s\n%s", err, stdout.String(), stderr.String(), u.log)
	}
	return out
}

// What runs leave in quarantine on an ordinary user's machine: it is bounded as the
// settings say and the status tells, and no link leads the person's git there or into
// a cache.
func TestWhatRunsLeaveInQuarantine(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.write(filepath.Join(d.home, "config.toml"), "[process]\nquarantine_bytes = 3145728\nquarantine_workspace_bytes = 2097152\n", 0o600)
	other := filepath.Join(filepath.Dir(d.work), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	d.give(other)
	as := d.ordinary()
	in := func(t *testing.T) user {
		of := *d
		of.t = t
		return user{&of, as}
	}
	t.Run("limits", func(t *testing.T) { in(t).fills(other) })
	t.Run("links", func(t *testing.T) { in(t).isLedNowhere() })
}

// kept are the calls that have something in quarantine.
func (u user) kept() (calls []string) {
	entries, err := os.ReadDir(filepath.Join(u.home, "quarantine"))
	if err != nil {
		u.t.Fatal(err)
	}
	for _, e := range entries {
		calls = append(calls, e.Name())
	}
	return calls
}

// fills has runs put more into quarantine than is kept.
func (u user) fills(other string) {
	var calls []string
	put := func(workspace string, bytes int, left ...string) {
		u.t.Helper()
		out := u.exec(workspace, "--", "/bin/sh", "-c", fmt.Sprintf("mkdir -p a; head -c %d /dev/urandom > a/.envrc", bytes))
		if !slices.Equal(out.Quarantined, []palyra.PathText{"a/.envrc"}) || len(out.Left) != len(left) {
			u.t.Fatalf("%s: quarantined %q, left %q", workspace, out.Quarantined, out.Left)
		}
		for i, l := range left {
			if !strings.HasPrefix(out.Left[i], l) {
				u.t.Errorf("left %q, want %q", out.Left, left)
			}
		}
		calls = append(calls, string(out.CallID))
		var why struct{ Notes []string }
		u.palyra(&why, "policy", "why", string(out.CallID))
		if got := strings.Join(why.Notes, "\n"); !strings.Contains(got, "in quarantine, under this call's id") ||
			!strings.Contains(got, ": a/.envrc") {
			u.t.Errorf("why does not name it: %s", got)
		}
	}
	put(u.work, 900_000)
	put(u.work, 900_000)
	put(u.work, 900_000, "quarantine_dropped: "+calls[0])        // of the same workspace
	put(other, 1_500_000, "quarantine_dropped: "+calls[1])       // of all
	put(other, 2_500_000, "quarantine_too_large: a/.envrc (250") // no room for it alone
	if got := u.kept(); !slices.Equal(got, []string{calls[2], calls[3], calls[4]}) {
		u.t.Errorf("kept %q of %q", got, calls)
	}
	var said string
	for end := time.Now().Add(waitMost); ; { // what a look saw is good for a while
		var status struct{ Features map[string]string }
		u.palyra(&status, "status")
		said = status.Features["quarantine"]
		var n, bytes int64
		_, err := fmt.Sscanf(said, "%d kept, %d bytes of 3145728; each for 30 days", &n, &bytes)
		if err == nil && n == 3 && bytes > 2_400_000 && bytes < 2_500_000 {
			break
		}
		if time.Now().After(end) {
			u.t.Fatalf("status: %q, %v", said, err)
		}
		<-time.After(50 * time.Millisecond)
	}
	if text, err := u.as("palyra", "status").CombinedOutput(); err != nil || !strings.Contains(string(text), said) {
		u.t.Errorf("status: %v\n%s", err, text)
	}
}

// isLedNowhere: one run plants repositories that have the host run a program, the next
// makes the person's directory a link to them, by whatever way.
func (u user) isLedNowhere() {
	git, err := exec.LookPath("git")
	if err != nil {
		u.t.Fatalf("git is needed: %v", err)
	}
	pwned := filepath.Join(u.work, "pwned")
	plant := `plant() { mkdir -p "$1/objects" "$1/refs/heads"; echo 'ref: refs/heads/main' > "$1/HEAD"; printf '[core]\n\tfsmonitor="touch ` + pwned + `;false"\n' > "$1/config"; }; `
	out := u.exec(u.work, "--profile", "rust", "--", "/bin/sh", "-c", plant+
		`plant r; plant "$CARGO_HOME/r/.git"; while read -r a b c root at rest; do [ "$at" = "$CARGO_HOME" ] && echo "$root"; done < /proc/self/mountinfo`)
	if !slices.Equal(out.Quarantined, []palyra.PathText{"r"}) || !slices.Equal(out.Left, []string{"repository_in_cache: cargo/r/.git"}) {
		u.t.Fatalf("quarantined %q, left %q: %s", out.Quarantined, out.Left, out.Stderr)
	}
	item, cache := filepath.Join(u.home, "quarantine", string(out.CallID), "000001", "item"), u.seen(strings.TrimSpace(out.Stdout))+"/r"
	status := func(dir string) string {
		cmd := u.as(git, "status")
		cmd.Dir = dir
		text, err := cmd.CombinedOutput()
		return fmt.Sprintf("%s%v", text, err)
	}
	if said := status(cache); !there(pwned) {
		u.t.Fatalf("control: the repository in the cache does not work: %s", said)
	}
	if err := os.Remove(pwned); err != nil {
		u.t.Fatal(err)
	}
	up := "/proc/self/cwd/.." + strings.Repeat("/..", strings.Count(u.work, "/"))
	for _, to := range []string{item, cache, "/proc/self/root" + cache, up + cache, "/proc/self/root" + item} {
		for _, live := range []bool{true, false} {
			u.put("docs/a.md", "x\n")
			line := "rm -rf docs; ln -s '" + to + "' docs"
			var out palyra.Outcome
			if live {
				out = u.exec(u.work, "--", "/bin/sh", "-c", line)
			} else { // the link is asked about before anybody can follow it
				out = u.execAnswered(u.work, []palyra.Answer{palyra.AnswerAllow, palyra.AnswerDeny}, "--", "/bin/sh", "-c", line)
			}
			if said := status(filepath.Join(u.work, "docs")); there(pwned) {
				u.t.Errorf("%s, live %v: the host obeyed: %s", to, live, said)
				_ = os.Remove(pwned)
			}
			switch {
			case !live && (out.Effects != palyra.EffectsDropped || !there(filepath.Join(u.work, "docs/a.md"))):
				u.t.Errorf("%s: %s, and docs is not as before", to, out.Effects)
			case live && (!slices.Equal(out.Quarantined, []palyra.PathText{"docs"}) || there(filepath.Join(u.work, "docs"))):
				u.t.Errorf("%s, live %v: quarantined %q, left %q", to, live, out.Quarantined, out.Left)
			}
			_ = os.RemoveAll(filepath.Join(u.work, "docs"))
		}
	}
}

// seen is the host's path of what a mount shows by its path in its own file system.
func (u user) seen(root string) string {
	for at := root; at != "/" && at != "."; {
		if there(at) {
			return at
		}
		_, rest, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
		at = "/" + rest
	}
	u.t.Fatalf("no host path of %q", root)
	return ""
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
