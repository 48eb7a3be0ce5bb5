//go:build linux

package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

// Who gives a check what --json prints is told so by the commands that check.
func TestChecksTellAboutForm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.json")
	key := strings.Repeat("A", 43) + "="
	for command, form := range map[string]string{
		"attest":  `{"attestation_id":"X","envelope":{"payload":"x"}}`,
		"sandbox": `{"postures":[{"envelope":{}}]}`,
	} {
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
		if code, _, said := playIn(t, home, command...); code != exit.NoDaemon || !strings.Contains(said, "remedy: palyra up --detach\n") {
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
	s := stagetest.Open(t, Main, nil)
	stagetest.Fatal(t, os.Remove(filepath.Join(s.Home, "run", "operator.sock")))
	if code, out, said := s.Main(nil, "access", "whoami"); code != exit.OK || !strings.Contains(out, "agent:local") {
		t.Errorf("%d %s%s", code, out, said)
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
	s := stagetest.Open(t, Main, nil)
	file := filepath.Join(s.Home, "config.toml")
	stagetest.Fatal(t, os.WriteFile(file, []byte("[approvals]\nwait = 5\n"), 0o600))
	env := []string{"PALYRA_HOME=" + s.Home}
	for _, args := range [][]string{{"status"}, {"approvals", "list"}, {"tools", "list"}} {
		if code, _, said := alone(t, env, args...); code != exit.OK {
			t.Errorf("%v: exit %d\n%s", args, code, said)
		}
	}
	if code, _, said := alone(t, env, "config", "show"); code == exit.OK || !strings.Contains(said, "approvals.wait") {
		t.Errorf("exit %d\n%s", code, said)
	}
	stagetest.Fatal(t, os.Chmod(file, 0o666))
	if code, _, said := alone(t, env, "status"); code == exit.OK {
		t.Errorf("an unsafe file: exit %d\n%s", code, said)
	}
	other := t.TempDir()
	stagetest.Fatal(t, os.Chmod(other, 0o700))
	stagetest.Fatal(t, os.WriteFile(filepath.Join(other, "config.toml"), []byte("[approvals]\nwait = 5\n"), 0o600))
	if code, _, said := alone(t, []string{"PALYRA_HOME=" + other}, "status"); code != exit.Failure ||
		!strings.Contains(said, "approvals.wait") {
		t.Errorf("nobody listens: exit %d\n%s", code, said)
	}
}
