package cells

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stray starts a process with a mark, as a run would have it or as anybody could.
func stray(t *testing.T, mark uint64, quiet bool) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/bash", "-c", fmt.Sprintf("ulimit -x %d && exec sleep 1000", mark))
	var err error
	onThread(func() {
		if quiet {
			err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		}
		if err == nil {
			err = cmd.Start()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for {
		if m, ok := markOf("/proc", cmd.Process.Pid); ok && m == mark {
			return cmd
		}
		Pause(1e6, nil)
	}
}

// TestCopiedMarks: a mark alone does not have a process killed. Whoever puts one on
// may go on to run a program that gains rights, and what runs then is not his.
func TestCopiedMarks(t *testing.T) {
	const mark = 0x5a5a5a5a00000001
	ours, copied := stray(t, mark, true), stray(t, mark, false)
	h := hunt{proc: "/proc", uid: os.Geteuid(), ours: func(m uint64) bool { return m == mark }}
	if left := h.sweep(); left != 0 {
		t.Errorf("%d left", left)
	}
	if st, ok := statOf("/proc", ours.Process.Pid); ok && st.state != "Z" {
		t.Errorf("ours is in state %s", st.state)
	}
	if st, ok := statOf("/proc", copied.Process.Pid); !ok || strings.Contains("ZTX", st.state) {
		t.Errorf("the copy was touched: %+v", st)
	}
	if p, ok := h.strike(copied.Process.Pid, unix.SIGKILL); ok {
		t.Errorf("%+v is taken for ours", p)
	}
}

// TestLook: who a process with a mark can be.
func TestLook(t *testing.T) {
	const limits = "Limit Soft Hard Units\nMax file locks 7 7 locks\n"
	const stat = "42 (x) S 7 42 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 77 11 12"
	const status = "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nNoNewPrivs:\t1\n"
	for name, c := range map[string]struct {
		uid                  int
		limits, stat, status string
		ok                   bool
	}{
		"ours":                       {1000, limits, stat, status, true},
		"a run of root's daemon":     {0, limits, stat, status, true},
		"another user's":             {1001, limits, stat, status, false},
		"one that may gain rights":   {0, limits, stat, strings.Replace(status, "\t1\n", "\t0\n", 1), false},
		"one that has gained rights": {1000, limits, stat, strings.Replace(status, "1000\t1000\t1000\t1000", "1000\t0\t0\t0", 1), false},
		"another mark":               {1000, strings.ReplaceAll(limits, "7", "8"), stat, status, false},
		"no mark":                    {1000, "", stat, status, false},
		"no status":                  {1000, limits, stat, "", false},
		"a status without a user":    {0, limits, stat, "Name:\tx\nNoNewPrivs:\t1\n", false},
		"a name that lies":           {0, limits, stat, "Name:\tNoNewPrivs:\t1\nUid:\t0\t0\t0\t0\nNoNewPrivs:\t0\n", false},
		"no stat":                    {1000, limits, "42 (x) S", status, false},
	} {
		dir := procWith(t, "limits", c.limits)
		for file, text := range map[string]string{"stat": c.stat, "status": c.status} {
			if err := os.WriteFile(filepath.Join(dir, "42", file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p, ok := hunt{proc: dir, uid: c.uid, ours: func(m uint64) bool { return m == 7 }}.look(42)
		if ok != c.ok || ok && (p != prey{42, "77"}) {
			t.Errorf("%s: %+v %v", name, p, ok)
		}
	}
}

// TestStrikeGroup: the kernel's list is what counts, this process is never in it, and
// a number that is nobody's hurts nobody.
func TestStrikeGroup(t *testing.T) {
	victim := exec.Command("sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	k := fake("cgroup.procs")
	g, err := Cgroups{kernel: k, Version: 1, Memory: t.TempDir()}.group("1")
	if err != nil {
		t.Fatal(err)
	}
	list := fmt.Sprintf("0\n%d\n%d\n%d\n", os.Getpid(), victim.Process.Pid, 1<<30)
	if err := os.WriteFile(g.file(g.Memory, "cgroup.procs"), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := g.strike(); n != 2 { // the one who is nobody stays on this list
		t.Errorf("%d", n)
	}
	if err := victim.Wait(); victim.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Error(err)
	}
}

// TestOnlyHarmless: a cell is believed to have left nothing only where the kernel
// says so.
func TestOnlyHarmless(t *testing.T) {
	k := fake("cgroup.procs")
	for name, c := range map[string]struct {
		inside bool
		procs  string
		pids   []int
		want   bool
	}{
		"the two of a room":        {true, "7\n8\n", []int{7, 8}, true},
		"one is gone already":      {true, "8\n", []int{7, 8}, true},
		"nobody":                   {true, "", []int{7, 8}, true},
		"somebody else":            {true, "7\n8\n9\n", []int{7, 8}, false},
		"somebody out of sight":    {true, "7\n0\n", []int{7, 8}, false},
		"nonsense":                 {true, "7\nx\n", []int{7, 8}, false},
		"who they are is unknown":  {true, "", nil, false},
		"a cell outside":           {false, "", nil, true},
		"a cell outside, and more": {false, "7\n", nil, false},
	} {
		g, err := Cgroups{kernel: k, Version: 1, Memory: t.TempDir(), inside: c.inside}.group("1")
		if err == nil {
			err = os.WriteFile(g.file(g.Memory, "cgroup.procs"), []byte(c.procs), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := g.only(c.pids); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (*Group)(nil).only([]int{7}) || (&Group{}).only([]int{7}) {
		t.Error("known without a group")
	}
	gone := &Group{Cgroups{Memory: filepath.Join(t.TempDir(), strconv.Itoa(1)), inside: true}, "1"}
	if gone.only([]int{7}) {
		t.Error("known of a group that cannot be read")
	}
}
