//go:build unix

package service

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestAlive(t *testing.T) {
	if !alive(os.Getpid()) {
		t.Error("this process is not alive")
	}
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for alive(cmd.Process.Pid) { // it ends as a process nobody asked about
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("an ended process counts as alive")
		}
	}
	_ = cmd.Wait()
	if alive(cmd.Process.Pid) {
		t.Error("a process that was waited for is alive")
	}
}

func TestLastWords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("palyrad: old\n  remedy: old\ntime=1 msg=x\npalyrad: no room\n  remedy: make room\ntime=2 msg=y\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if text, remedy := lastWords(log); text != "no room" || remedy != "make room" {
		t.Errorf("%q %q", text, remedy)
	}
	if text, _ := lastWords(log + "x"); text != "" {
		t.Errorf("%q", text)
	}
}
