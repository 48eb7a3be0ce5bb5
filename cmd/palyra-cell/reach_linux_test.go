package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Neither process can be looked into, before or after there is a program.
func TestNotDumpable(t *testing.T) {
	w := me
	if w.uid == 0 {
		w.uid = ordinary // as root everything belongs to root anyway
	}
	h := start(t, w)
	until(t, "a launcher that hides", func() bool { return owner(t, h.ready.Launcher) == 0 })
	if owner(t, h.cmd.Process.Pid) != 0 {
		t.Error("the supervisor can be looked into")
	}
	h.order(shell("read line"))
	h.expect(cell.ReportStarted)
	if got := owner(t, h.ready.Launcher); got != w.uid {
		t.Errorf("the program itself belongs to %d", got)
	}
	h.send(cell.Order{Kind: cell.OrderStop})
	h.expect(cell.ReportExited)
	h.expect(cell.ReportEnded)
}

func owner(t *testing.T, pid int) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/environ", &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid)
}

// A program reaches neither its supervisor, nor that one's hand, nor anybody
// outside.
func TestOutOfReach(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		outside := exec.Command("/bin/sleep", "1000")
		outside.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if w.uid != os.Getuid() {
			outside.SysProcAttr.Credential = credential(w.uid)
		}
		if err := outside.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = outside.Process.Kill(); _ = outside.Wait() }()
		_, _, out := finished(t, w, insideSpec("reach", strconv.Itoa(outside.Process.Pid)))
		if out != "tried\n" {
			t.Error(out)
		}
	})
}

// The supervisor cannot be fooled into killing anyone else: the domain is proven
// before it is used.
func TestOutOfReachNeedsADomain(t *testing.T) {
	if outOfReach(os.Getppid()) && os.Getuid() == 0 {
		t.Error("this process is in no domain and could not reach its parent")
	}
	if outOfReach(0) {
		t.Error("no parent proves nothing")
	}
}
