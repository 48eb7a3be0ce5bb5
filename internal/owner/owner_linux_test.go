package owner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stranger is a uid that no system gives to anybody, and easy to find in /proc.
const stranger = 1_999_888_777

var strange = Identity{UID: stranger, GID: stranger}

// rootOnly: only root takes on another identity.
func rootOnly(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("only root takes on another identity; the run as root does this")
		return false
	}
	return true
}

// open is a directory that everybody may write to, at a path everybody may pass.
func open(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// status is what the kernel says of the calling thread.
func status() (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", unix.Gettid()))
	return string(b), err
}

func TestWhatIsMadeIsTheOwners(t *testing.T) {
	if !rootOnly(t) {
		return
	}
	f := filepath.Join(open(t), "f")
	if err := Do(Identity{UID: stranger, GID: stranger - 1}, func() error { return os.WriteFile(f, nil, 0o600) }); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(f, &st); err != nil || int64(st.Uid) != stranger || int64(st.Gid) != stranger-1 {
		t.Errorf("uid %d, gid %d, %v", st.Uid, st.Gid, err)
	}
}

// What is for root only is not for the owner: not for a stranger, and not for
// uid 0 without its capabilities where the file is somebody else's.
func TestWhatIsOthersStaysTheirs(t *testing.T) {
	if !rootOnly(t) {
		return
	}
	dir := open(t)
	secret, grouped := filepath.Join(dir, "secret"), filepath.Join(dir, "grouped")
	for _, f := range []string{secret, grouped} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chown(grouped, stranger-1, stranger-2), os.Chmod(grouped, 0o040)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		id   Identity
		file string
		may  bool
	}{
		"root's own":             {Identity{}, secret, true},
		"root's, by a stranger":  {strange, secret, false},
		"another's, by root":     {Identity{}, grouped, false},
		"another's, by stranger": {strange, grouped, false},
		"by group":               {Identity{UID: stranger, GID: stranger - 2}, grouped, true},
		"by further group":       {Identity{UID: stranger, GID: stranger, Groups: []int{7, stranger - 2}}, grouped, true},
		"by other groups":        {Identity{UID: stranger, GID: stranger, Groups: []int{0, 7}}, grouped, false},
	} {
		err := Do(c.id, func() error { _, err := os.ReadFile(c.file); return err })
		if c.may && err != nil || !c.may && !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.ReadFile(grouped); err != nil { // outside it is root as ever
		t.Error(err)
	}
}

// The kernel's own word for it, and for every way in which work can end.
func TestNoThreadLivesOnAsTheOwner(t *testing.T) {
	if !rootOnly(t) {
		return
	}
	before, err := status()
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]func() error{
		"":                        func() error { return nil },
		"failed":                  func() error { return errors.New("failed") },
		"panic: boom":             func() error { panic("boom") },
		"the work ended early":    func() error { runtime.Goexit(); return nil },
		"owner: nobody is uid -1": func() error { return Do(Identity{UID: -1}, nil) },
	}
	var wg sync.WaitGroup
	for range 20 {
		for want, end := range ends {
			wg.Go(func() {
				err := Do(strange, func() error {
					if err := isStrange(); err != nil {
						return err
					}
					return end()
				})
				if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%q: %v", want, err)
				}
			})
		}
	}
	wg.Wait()
	noneLeft(t)
	if after, err := status(); err != nil || rightsIn(after) != rightsIn(before) {
		t.Errorf("the caller became somebody: %v %s", err, after)
	}
}

// isStrange says why the calling thread is not the stranger.
func isStrange() error {
	s, err := status()
	if err != nil {
		return err
	}
	ids := fmt.Sprintf("\t0\t0\t0\t%d\n", stranger)
	for _, want := range []string{"Uid:" + ids, "Gid:" + ids, "Groups:\t \n", "CapEff:\t0000000000000000\n"} {
		if !strings.Contains(s, want) {
			return fmt.Errorf("no %q in %s", want, s)
		}
	}
	if unix.Gettid() == os.Getpid() {
		return errors.New("on the first thread, which cannot end")
	}
	return nil
}

// rightsIn are the lines of a status that tell what a thread may do.
func rightsIn(status string) string {
	var out []string
	for line := range strings.Lines(status) {
		for _, p := range []string{"Uid:", "Gid:", "Groups:", "Cap"} {
			if strings.HasPrefix(line, p) {
				out = append(out, line)
			}
		}
	}
	return strings.Join(out, "")
}

// noneLeft waits for all threads that were the stranger: one takes a moment to end.
func noneLeft(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		tasks, err := filepath.Glob("/proc/self/task/*/status")
		if err != nil || len(tasks) == 0 {
			t.Fatal(tasks, err)
		}
		var left []string
		for _, task := range tasks {
			if b, err := os.ReadFile(task); err == nil && strings.Contains(string(b), fmt.Sprint(stranger)) {
				left = append(left, task)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads live on as the owner: %v", left)
		}
	}
}

// Work in work is its own: neither takes the other's rights along.
func TestWorkInWork(t *testing.T) {
	if !rootOnly(t) {
		return
	}
	err := Do(Identity{UID: stranger - 1, GID: stranger - 1}, func() error {
		was, err := status()
		if err != nil {
			return err
		}
		if err := Do(strange, isStrange); err != nil {
			return err
		}
		is, err := status()
		if err == nil && rightsIn(is) != rightsIn(was) {
			err = fmt.Errorf("%s, not %s", is, was)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	noneLeft(t)
}

// Whoever lost the right to become somebody is told so, and nothing is done with
// the rights that are left.
func TestTheKernelRefuses(t *testing.T) {
	if !rootOnly(t) {
		return
	}
	for name, lost := range map[string]uint32{"groups": 1 << unix.CAP_SETGID, "uid": 1 << unix.CAP_SETUID} {
		err := onOwnThread(func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var caps [2]unix.CapUserData
			if err := unix.Capget(&header, &caps[0]); err != nil {
				return err
			}
			caps[0].Effective &^= lost
			if err := unix.Capset(&header, &caps[0]); err != nil {
				return err
			}
			if become(strange) == nil {
				return fmt.Errorf("%s: no error", name)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A thread that somebody was on goes on with every right that it had, and with none that it had not.
func TestTheThreadGoesOnAsItWas(t *testing.T) {
	if !rootOnly(t) {
		return
	}
	before, err := status()
	if err != nil {
		t.Fatal(err)
	}
	went := 0
	for range 50 {
		var tid int
		id := Identity{UID: stranger, GID: stranger, Groups: []int{stranger - 1}}
		if err := Do(id, func() error { tid = unix.Gettid(); return nil }); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", tid))
		if err != nil {
			continue // it ended, as it may
		}
		went++
		if rightsIn(string(b)) != rightsIn(before) {
			t.Fatalf("the thread goes on as\n%s, not\n%s", rightsIn(string(b)), rightsIn(before))
		}
	}
	if went == 0 {
		t.Error("no thread went on")
	}
}

// A thread that does not get its rights back is nobody's any more.
func TestAThreadThatCannotGoBackEnds(t *testing.T) {
	if !rootOnly(t) {
		return
	}
	for name, drop := range map[string]func(*[2]unix.CapUserData){
		"may not become root again": func(c *[2]unix.CapUserData) { *c = [2]unix.CapUserData{} },
		"lost one right":            func(c *[2]unix.CapUserData) { c[0].Permitted &^= 1 << unix.CAP_MKNOD },
	} {
		for _, id := range []Identity{strange, {}} {
			var tid int
			err := Do(id, func() error {
				tid = unix.Gettid()
				header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
				var caps [2]unix.CapUserData
				if err := unix.Capget(&header, &caps[0]); err != nil {
					return err
				}
				drop(&caps)
				return unix.Capset(&header, &caps[0])
			})
			if err != nil {
				t.Fatal(name, err)
			}
			task := fmt.Sprintf("/proc/self/task/%d", tid)
			for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
				if _, err := os.Stat(task); err != nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: the thread lives on", name)
				}
			}
		}
	}
	noneLeft(t)
}

func BenchmarkDo(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Log("only root takes on another identity")
		return
	}
	for b.Loop() {
		if err := Do(strange, func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// inNamespace marks this test's process in the user namespace.
const inNamespace = "PALYRA_TEST_OWNER_NAMESPACE"

// In a user namespace that was entered with a group which has no number there, nobody can give that group back: the thread
// ends, or it would go on with the group whose number the kernel uses for such.
func TestAGroupWithoutANumberIsNotGivenBack(t *testing.T) {
	switch os.Getenv(inNamespace) {
	case "":
		if !rootOnly(t) {
			return
		}
		again(t, "with", &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{5_000}}})
		return
	case "with":
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100_000, Size: 65_536}}
		again(t, "in", &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{NoSetGroups: true},
		})
		return
	}
	if groups, err := unix.Getgroups(); err != nil || len(groups) != 1 || os.Geteuid() != 0 {
		t.Fatalf("not as it is meant: %v %v", groups, err)
	}
	var tid int
	if err := Do(Identity{UID: 7, GID: 7}, func() error { tid = unix.Gettid(); return nil }); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the thread goes on")
		}
	}
}

// again runs the test once more in another process.
func again(t *testing.T, step string, as *syscall.SysProcAttr) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.SysProcAttr, cmd.Dir = append(os.Environ(), inNamespace+"="+step), as, "/"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) {
		t.Errorf("%s: %v %s", step, err, out)
	}
}
