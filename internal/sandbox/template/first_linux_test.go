package template

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

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

// A room that is being closed is not taken for one that is opened at the same time: nobody else is killed, and nobody
// is waited for.
func TestARoomThatEndsBesideOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(32)) // so that threads are stopped anywhere
	other := sleeper(t)
	stop := make(chan struct{})
	var opening sync.WaitGroup
	for range 4 { // descriptors of the other process come where one was closed
		opening.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if fd, err := unix.PidfdOpen(other.Process.Pid, 0); err == nil {
					_ = unix.Close(fd)
				}
			}
		})
	}
	for range 100 {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := NewFirst(os.NewFile(uintptr(fd), "pidfd"), func() {})
		var all sync.WaitGroup
		all.Go(func() { _ = f.Wait() })
		for range 16 {
			all.Go(func() {
				for range 4 {
					f.Kill()
					if !f.Ended(5 * time.Second) {
						t.Error("it is waited for a process that has ended")
					}
				}
			})
		}
		all.Wait()
		_, _ = cmd.Process.Wait()
	}
	close(stop)
	opening.Wait()
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("another process was killed")
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, other.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || info.Signo != 0 {
		t.Errorf("another process was killed: %v, signal %d", err, info.Signo)
	}
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
