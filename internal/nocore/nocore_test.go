//go:build linux

package nocore

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that crashes leaves a file of its memory where it may; after Set it does not, nor does what it starts.
func TestNoMemoryIsLeft(t *testing.T) {
	if dir := os.Getenv("NOCORE_DIR"); dir != "" {
		if os.Getenv("NOCORE_SET") != "" {
			if err := Set(); err != nil {
				t.Fatal(err)
			}
		}
		_ = unix.Exec("/bin/sh", []string{"sh", "-c", "kill -ABRT $$"}, nil)
	}
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || strings.HasPrefix(string(pattern), "|") || strings.Contains(string(pattern), "/") {
		t.Logf("dumps go elsewhere: %q, %v", pattern, err)
	}
	for _, set := range []string{"", "1"} {
		dir := t.TempDir()
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-c", "ulimit -c unlimited && exec "+exe+" -test.run '^TestNoMemoryIsLeft$'")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "NOCORE_DIR="+dir, "NOCORE_SET="+set)
		_ = cmd.Run()
		state := cmd.ProcessState.Sys().(interface{ CoreDump() bool })
		left, _ := filepath.Glob(filepath.Join(dir, "*core*"))
		if set != "" && (state.CoreDump() || len(left) > 0) {
			t.Errorf("memory is left: %t %q", state.CoreDump(), left)
		}
		if set == "" && !state.CoreDump() {
			t.Logf("this system keeps no memory anyhow: %v", cmd.ProcessState)
		}
	}
}
