//go:build linux

package cli

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
)

// A summary in which the daemon escaped outside text is not escaped again; where
// something in it is not safe, or a backslash stands bare, all of it is.
func TestSummaryIsEscapedOnce(t *testing.T) {
	for text, want := range map[string]string{
		`run script "set -e\nnpm ci"`:       `run script "set -e\nnpm ci"`,
		`run a "b\\n" "\x1b"`:               `run a "b\\n" "\x1b"`,
		`run cat "x" < "a\nb"`:              `run cat "x" < "a\nb"`,
		`read a\nb`:                         `read a\\nb`, // a name with a backslash, not a line break
		"run \"a\nb\"":                      `run "a\nb"`,
		"run \"a\x1bb\\n\"":                 `run "a\x1bb\\n"`,
		"run \"\u202e\\n\"":                 `run "\u{202e}\\n"`,
		`run "a\nb [3 bytes left out] c`:    `run "a\\nb [3 bytes left out] c`, // the quote has no end
		`run "a" \n "b"`:                    `run "a" \\n "b"`,
		"run 'a\\n'":                        `run 'a\\n'`,
		"run `a\\n`":                        "run `a\\\\n`",
		"":                                  "",
		`write "caf` + "\u00e9" + `\n.txt"`: `write "caf` + "\u00e9" + `\n.txt"`,
	} {
		if got := screen.SafeLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	long := `run "` + strings.Repeat(`a\n`, 100) + `"`
	if got := screen.SafeMiddle(long, 60); strings.Contains(got, `\\n`) || !strings.Contains(got, "left out") {
		t.Error(got)
	}
	var out bytes.Buffer
	screen.Table(&out, []string{"TOOL", screen.SummaryColumn}, [][]string{{`"a\nb"`, `"a\nb"`}})
	screen.Fields(&out, screen.Pair{"Tool", `"a\nb"`}, screen.Pair{screen.SummaryField, `"a\nb"`})
	if strings.Count(out.String(), `"a\nb"`) != 2 || strings.Count(out.String(), `"a\\nb"`) != 2 {
		t.Error(out.String())
	}
}

// An attestation says by what a run was held, and by what not.
func TestPredicateTellsWhatHeld(t *testing.T) {
	at := sampleAttestation()
	at.Predicate.Enforcement = palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"bubblewrap", "seccomp"},
		Limits: map[string]palyra.Hold{"memory": "polled", "processes": "rlimit", "cpu": "rlimit+polled", "disk": "none"},
	}
	var out bytes.Buffer
	printPredicate(&out, at)
	for _, want := range []string{
		"Network           strict\n", "Held by           bubblewrap, seccomp\n", "Limits            cpu=rlimit+polled disk=none memory=polled processes=rlimit\n",
		"NOT enforced      disk (not limited), memory (only counted now and then)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

// Who gives a check what --json prints is told what to give instead.
func TestAboutForm(t *testing.T) {
	bad := palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bad").WithRemedy("old")
	for raw, want := range map[string]string{
		`{"postures":[]}`:                      "palyra sandbox posture DIGEST --envelope",
		`{"posture":{},"envelope":{}}`:         "palyra sandbox posture DIGEST --envelope",
		`{"attestation_id":"X","envelope":{}}`: "palyra attest show REF --envelope",
		`{"payload":"x"}`:                      "old",
		`nonsense`:                             "old",
		`[]`:                                   "old",
	} {
		if got := palyra.AsError(aboutForm([]byte(raw), bad)); !strings.Contains(got.Remedy, want) || got.Text != "bad" {
			t.Errorf("%s: %+v", raw, got)
		}
	}
	file := filepath.Join(t.TempDir(), "f.json")
	key := strings.Repeat("A", 43) + "="
	for command, form := range map[string]string{"attest": `{"attestation_id":"X","envelope":{"payload":"x"}}`, "sandbox": `{"postures":[{"envelope":{}}]}`} {
		if err := os.WriteFile(file, []byte(form), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, said := play(t, command, "verify", file, "--key", key); code != exit.Failure || !strings.Contains(said, "--envelope") {
			t.Errorf("%s: %d %s", command, code, said)
		}
	}
}

// In the room of an agent there is its door and no operator's: no daemon is to be
// started there.
func TestInsideARoom(t *testing.T) {
	home, err := os.MkdirTemp("", "palyra-room")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if err := os.Mkdir(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"status"}, {"approvals", "list"}} {
		if code, _, said := playIn(t, home, command...); code != exit.NoDaemon || !strings.Contains(said, "remedy: palyra up") {
			t.Errorf("outside, %s: %d %s", command, code, said)
		}
	}
	l, err := net.Listen("unix", filepath.Join(home, "run", "agent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, command := range [][]string{{"status"}, {"approvals", "list"}} {
		code, _, said := playIn(t, home, command...)
		if code == exit.OK || !strings.Contains(said, "an agent has no operator's door") || strings.Contains(said, "palyra up") {
			t.Errorf("inside, %s: %d %s", command, code, said)
		}
	}
}

// In a room the only door is the agent's: whoami asks there.
func TestWhoAmIInside(t *testing.T) {
	s := openStage(t, nil)
	fatal(t, os.Remove(filepath.Join(s.home, "run", "operator.sock")))
	if code, out, said := s.main(nil, "access", "whoami"); code != exit.OK || !strings.Contains(out, "agent:local") {
		t.Errorf("%d %s%s", code, out, said)
	}
}

// up and status name what is wrong with a daemon that runs all the same.
func TestUpNamesProblems(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		var out bytes.Buffer
		u := launch{inv: &invocation.Invocation{Stdout: &out, Stderr: &out, Quiet: quiet}}
		if err := u.greet(client.Status{PID: 1, Problems: []string{"tier C cannot be used: there is no bubblewrap"}}, false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "PROBLEM: tier C cannot be used: there is no bubblewrap\n") {
			t.Error(out.String())
		}
	}
}

func TestBwrapIsChecked(t *testing.T) {
	dir := t.TempDir()
	plain, set, file := filepath.Join(dir, "plain"), filepath.Join(dir, "set"), filepath.Join(dir, "file")
	for path, mode := range map[string]os.FileMode{plain: 0o755, set: 0o755 | os.ModeSetuid, file: 0o644} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(system string, env ...string) string {
		inv := &invocation.Invocation{Env: append(env, "PALYRA_HOME="+dir)}
		var said []string
		for _, p := range bwrapProblems(inv, system) {
			said = append(said, p.String())
		}
		return strings.Join(said, "\n")
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "apt install bubblewrap", set: "chmod ug-s", file: "is no program", dir: "is no program", plain: ""} {
		if got := check("linux", "PALYRA_PROCESS_BWRAP="+path); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := check("darwin", "PALYRA_PROCESS_BWRAP="+set) + check("linux", "PALYRA_PROCESS_BWRAP="+set, "PALYRA_PROCESS_TIER=b"); got != "" {
		t.Errorf("where nothing needs it: %s", got)
	}
}

func TestConfigPathNamesRuns(t *testing.T) {
	home := t.TempDir()
	code, out, _ := playIn(t, home, "config", "path", "--json")
	want := filepath.Join(home, "cells")
	if os.Geteuid() == 0 {
		want = "palyra-cells-<state id>" // no daemon runs that knows it
	}
	for _, name := range []string{want + `"`, want + `-caches"`, want + `-posture"`} {
		if code != exit.OK || !strings.Contains(out, name) {
			t.Errorf("%d: %s is not in %s", code, name, out)
		}
	}
}

// A mistake in the configuration does not keep people from a daemon that runs; where
// none runs the mistake is what they are told, and an unsafe file always is.
func TestMistakesInTheConfigurationAreNotInTheWay(t *testing.T) {
	s := openStage(t, nil)
	file := filepath.Join(s.home, "config.toml")
	fatal(t, os.WriteFile(file, []byte("[approvals]\nwait = 5\n"), 0o600))
	env := []string{"PALYRA_HOME=" + s.home}
	for _, args := range [][]string{{"status"}, {"approvals", "list"}, {"tools", "list"}} {
		if code, _, said := alone(t, env, args...); code != exit.OK {
			t.Errorf("%v: exit %d\n%s", args, code, said)
		}
	}
	if code, _, said := alone(t, env, "config", "show"); code == exit.OK || !strings.Contains(said, "approvals.wait") {
		t.Errorf("exit %d\n%s", code, said)
	}
	fatal(t, os.Chmod(file, 0o666))
	if code, _, said := alone(t, env, "status"); code == exit.OK {
		t.Errorf("an unsafe file: exit %d\n%s", code, said)
	}
	other := t.TempDir()
	fatal(t, os.Chmod(other, 0o700))
	fatal(t, os.WriteFile(filepath.Join(other, "config.toml"), []byte("[approvals]\nwait = 5\n"), 0o600))
	if code, _, said := alone(t, []string{"PALYRA_HOME=" + other}, "status"); code != exit.Failure || !strings.Contains(said, "approvals.wait") {
		t.Errorf("nobody listens: exit %d\n%s", code, said)
	}
}
