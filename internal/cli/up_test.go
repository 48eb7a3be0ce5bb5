//go:build linux

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
)

// A daemon that cannot start says why, through up.
func TestUpTellsWhyNot(t *testing.T) {
	h := openHouse(t)
	h.palyra("down")
	state := filepath.Join(h.home, "state.db")
	if err := os.Rename(state, state+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := h.command("up", "--detach")
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err == nil || cmd.ProcessState.ExitCode() != exit.Failure || out.Len() != 0 || !strings.Contains(errs.String(), "palyra: ") {
		t.Errorf("%v\n%s%s", err, out.String(), errs.String())
	}
	if strings.Contains(errs.String(), "did not serve within") {
		t.Errorf("the end of the daemon went unnoticed:\n%s", errs.String())
	}
}

// Without PALYRA_HOME everything goes where XDG says.
func TestXDG(t *testing.T) {
	h := openHouse(t)
	h.palyra("down")
	dir := filepath.Dir(h.home)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"user", "runtime"} {
		if err := os.Mkdir(at(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.env = []string{
		"PALYRA_HOME=", "HOME=" + at("user"), "XDG_RUNTIME_DIR=" + at("runtime"), "XDG_CONFIG_HOME=" + at("config"),
		"XDG_STATE_HOME=" + at("state"), "XDG_CACHE_HOME=" + at("cache"),
	}
	out := h.palyra("up", "--detach", "--json")
	t.Cleanup(func() { killStatus(out) })
	for _, path := range []string{
		"config/palyra/operator.key", "config/palyra/keys", "state/palyra/state.db", "runtime/palyra/agent.sock",
		"runtime/palyra/operator.sock",
	} {
		if _, err := os.Stat(at(path)); err != nil {
			t.Error(err)
		}
	}
	h.palyra("tools", "call", "palyra.echo", "--input", `{"text":"x"}`)
	h.palyra("workspace", "add", h.work)
	h.palyra("down")
}

// A home whose path is too long for a socket still has one, elsewhere.
func TestLongHome(t *testing.T) {
	h := openHouse(t)
	h.palyra("down")
	dir := filepath.Dir(h.home)
	runtime := filepath.Join(dir, "runtime")
	if err := os.Mkdir(runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	h.home = filepath.Join(dir, strings.Repeat("l", 100), "home")
	h.env = []string{"PALYRA_HOME=" + h.home, "XDG_RUNTIME_DIR=" + runtime}
	out := h.palyra("up", "--detach", "--json")
	t.Cleanup(func() { killStatus(out) })
	if !strings.Contains(out, `"operator_socket":"`+runtime) {
		t.Errorf("the sockets are not in %s: %s", runtime, out)
	}
	// A client whose environment differs finds them too.
	h.env = []string{"PALYRA_HOME=" + h.home, "XDG_RUNTIME_DIR="}
	h.palyra("status")
	h.palyra("down")
}
