package template

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// sleeper is a process that does nothing.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	})
	return cmd
}

// Whatever is done with the process is done with it, though it is closed meanwhile.
func TestAProcessIsHeldWhileItIsUsed(t *testing.T) {
	fd, err := unix.PidfdOpen(sleeper(t).Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFirst(os.NewFile(uintptr(fd), "pidfd"), func() {})
	used := f.held(func(fd int) {
		if err := f.process.Close(); err != nil {
			t.Error(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Errorf("the descriptor is free for others: %v", err)
		}
	})
	if !used || f.held(func(int) { t.Error("it was used after its end") }) || !f.Ended(0) || f.Pid() != 0 {
		t.Errorf("used %v, pid %d", used, f.Pid())
	}
	f.Kill()
}
