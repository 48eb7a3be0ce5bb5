package cells

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWays: a descriptor by which a room of somebody enters its cgroups moves processes of theirs, and of nobody else, whoever
// has it. Here root has it, and may not move root's.
func TestWays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root opens files as somebody else")
	}
	all, err := readHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	c := cgroupfs.separate(all, where{runs: "palyra-ways-" + strconv.Itoa(os.Getpid()), inside: true})
	if c.Version != 1 {
		t.Skip("UNPROVEN HERE: there is no cgroup v1")
	}
	t.Cleanup(c.leave)
	g, err := c.group("1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.remove(leaveWithin); err != nil {
			t.Error(err)
		}
	})
	const uid = 54321
	before := os.Geteuid()
	ways, err := (&Keeper{Group: g}).Ways(uid)
	if err != nil || len(ways) != len(c.Dirs()) || os.Geteuid() != before {
		t.Fatal(ways, err)
	}
	defer CloseWays(ways)
	for who, want := range map[uint32]error{uid: nil, 0: unix.EACCES, uid + 1: unix.EACCES} {
		cmd := exec.CommandContext(t.Context(), "sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who, Gid: who}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, fd := range ways {
			if _, err := unix.Write(fd, []byte(strconv.Itoa(cmd.Process.Pid))); !errors.Is(err, want) {
				t.Errorf("a process of uid %d is moved: %v", who, err)
			}
		}
		if in := g.members(); (len(in) == 1) != (want == nil) {
			t.Errorf("in it are %v, with a process of uid %d", in, who)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
