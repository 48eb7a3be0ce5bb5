package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/effects"
)

// statesOf is what is at every path of a directory, found out by other means than the
// daemon's.
func statesOf(t testing.TB, top string) map[string]palyra.PathState {
	t.Helper()
	all := map[string]palyra.PathState{}
	err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		s := palyra.PathState{Kind: palyra.PathFile, Mode: st.Mode & 0o777}
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			s.Kind, s.Mode = palyra.PathDirectory, st.Mode&0o3777
		case syscall.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			s = palyra.PathState{Kind: palyra.PathLink, Target: palyra.TextOfPath(target)}
		case syscall.S_IFIFO:
			s.Kind = palyra.PathPipe
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s.Size, s.Digest = int64(len(b)), palyra.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256(b)))
		}
		all[strings.TrimPrefix(strings.TrimPrefix(path, top), "/")] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// linesBetween are the lines of the list of what is different in two trees.
func linesBetween(t testing.TB, was, now map[string]palyra.PathState) string {
	t.Helper()
	var names []string
	for p := range was {
		names = append(names, p)
	}
	for p := range now {
		names = append(names, p)
	}
	slices.SortFunc(names, func(a, b string) int { // what was there before, and then what is new
		_, x := was[a]
		_, y := was[b]
		if x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return strings.Compare(a, b)
	})
	var all strings.Builder
	for _, p := range slices.Compact(names) {
		a, before := was[p]
		b, after := now[p]
		if a == b && before == after {
			continue
		}
		kind := "changed"
		line := fmt.Sprintf(`{"path":%s,"change":%%q`, quoteJSON(t, palyra.TextOfPath(p)))
		switch same := a; {
		case !before:
			kind = "created"
		case !after:
			kind = "removed"
		case a.Kind == "link" || b.Kind == "link":
			kind = "link"
		default:
			if same.Mode = b.Mode; same == b {
				kind = "mode"
			}
		}
		if before {
			line += `,"was":` + strings.ReplaceAll(quoteJSON(t, a), "%", "%%")
		}
		if after {
			line += `,"now":` + strings.ReplaceAll(quoteJSON(t, b), "%", "%%")
		}
		fmt.Fprintf(&all, line+"}\n", kind)
	}
	return all.String()
}

func quoteJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What a staged run changed is on record: the list is the comparison of the workspace
// before and after, also of names and links that are not text; outcome, attestation and
// journal have its digest, and both verifiers agree. Another session cannot read it.
func TestChangesAreOnRecord(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.furnishes()
	d.put("s.sh", changing+`
printf x > "$(printf 'raw\377\nname')"; ln -s "$(printf '\376')" badlink; ln -sfn d f2; mkfifo pipe; chmod 600 k/x; touch s.sh`)
	was := statesOf(t, d.work)
	out := d.willing(d.inRoom(nil, "sh", "s.sh"))
	if out.Effects != palyra.EffectsKept || out.Changes == nil {
		t.Fatalf("%+v", out)
	}
	want := linesBetween(t, was, statesOf(t, d.work))
	got := d.readList(d.client(client.AgentDoor), string(out.SessionID), out.Changes.List)
	if got != want {
		t.Errorf("the list is\n%s\nwant\n%s", got, want)
	}
	if all, err := effects.Read(*out.Changes, []byte(got)); err != nil || int64(len(all)) != out.Changes.Total() {
		t.Errorf("%d, %v, %+v", len(all), err, out.Changes)
	}
	if p := predicate(t, out); p.Changes == nil || *p.Changes != *out.Changes {
		t.Errorf("attested is %+v, told %+v", p.Changes, out.Changes)
	}
	if other := d.readList(d.client(client.AgentDoor), "another", out.Changes.List); other != "" {
		t.Errorf("another session reads %q", other)
	}
	d.verifyList(out, got)

	still := d.willing(d.inRoom(nil, "sh", "-c", "cat f > /dev/null"))
	if still.Changes != nil || still.Effects == palyra.EffectsKept {
		t.Errorf("a run that only looks: %+v, %s", still.Changes, still.Effects)
	}
}

// readList reads an artifact in a session; nothing where that is refused.
func (d *daemon) readList(c *client.Client, session string, id palyra.ID) string {
	d.t.Helper()
	r := request(d, "palyra.artifact.read", map[string]any{"artifact_id": id})
	r.Session = session
	out, err := c.Call(d.t.Context(), r, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	var page struct {
		Content string `json:"content"`
	}
	if out.ExitCode == 0 {
		if err := json.Unmarshal(out.Output, &page); err != nil {
			d.t.Fatal(err)
		}
	}
	return page.Content
}

// verifyList has the independent verifier hold a list against an outcome.
func (d *daemon) verifyList(out palyra.Outcome, list string) {
	d.t.Helper()
	trust, err := d.client(client.OperatorDoor).ExportKeys(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	raw, err := out.Marshal()
	if err != nil {
		d.t.Fatal(err)
	}
	dir := d.t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string][]byte{
		"keys": trust, "outcome": raw, "list": []byte(list), "fewer": []byte(list[strings.Index(list, "\n")+1:]),
		"other": []byte(strings.Replace(list, `"created"`, `"changed"`, 1)),
	} {
		if err := os.WriteFile(at(name), text, 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	for name, holds := range map[string]bool{"list": true, "fewer": false, "other": false} {
		said, err := exec.Command(bin(d.t, "palyra-verify"), "--key", at("keys"), "--changes", at(name), at("outcome")).CombinedOutput()
		if (err == nil) != holds {
			d.t.Errorf("%s: %v: %s", name, err, said)
		}
	}
	if said, err := exec.Command(bin(d.t, "palyra"), "attest", "verify", at("outcome"), "--key", at("keys")).CombinedOutput(); err != nil {
		d.t.Errorf("%v: %s", err, said)
	}
}
