package ruleset

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

const readFile = unix.LANDLOCK_ACCESS_FS_READ_FILE

// reads reports whether a thread under a ruleset can read a file.
func reads(t *testing.T, s *Set, path string) bool {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its restriction
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return
		}
		if e := Restrict(s.FD()); e != 0 {
			err = e
			return
		}
		var fd int
		if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			_ = unix.Close(fd)
		}
	}()
	<-done
	if err != nil && !errors.Is(err, unix.EACCES) {
		t.Fatal(err)
	}
	return err == nil
}

// Rules made ahead are the beginning of the run's, or they are not used: what was made ahead alone never decides what a
// program may do.
func TestComplete(t *testing.T) {
	if ABI() == 0 {
		t.Skip("UNPROVEN HERE: this kernel has no Landlock")
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const all = readFile | unix.LANDLOCK_ACCESS_FS_EXECUTE
	gone := cell.Rule{Path: "/no/such", Access: readFile, Optional: true}
	bin, read := cell.Rule{Path: "/usr/bin", Access: readFile}, cell.Rule{Path: dir, Access: readFile}
	type rules = []cell.Rule
	for name, c := range map[string]struct {
		ahead   []cell.Landlock
		run     rules
		allowed bool
	}{
		"all of it":              {[]cell.Landlock{{FS: all, Rules: rules{bin, read}}}, rules{bin, read}, true},
		"a part":                 {[]cell.Landlock{{FS: all, Rules: rules{bin}}}, rules{bin, read}, true},
		"nothing":                {[]cell.Landlock{{FS: all}}, rules{bin, read}, true},
		"more than the run has":  {[]cell.Landlock{{FS: all, Rules: rules{bin, read}}}, rules{bin}, false},
		"in another order":       {[]cell.Landlock{{FS: all, Rules: rules{read, bin}}}, rules{bin}, false},
		"something else":         {[]cell.Landlock{{FS: all, Rules: rules{read}}}, rules{bin}, false},
		"twice":                  {[]cell.Landlock{{FS: all, Rules: rules{bin, read}}, {FS: all, Rules: rules{bin}}}, rules{bin}, false},
		"with less handled":      {[]cell.Landlock{{FS: unix.LANDLOCK_ACCESS_FS_EXECUTE, Rules: rules{}}}, rules{bin}, false},
		"what could not be made": {[]cell.Landlock{{FS: all, Rules: rules{read, {Path: "/no/such", Access: readFile}}}}, rules{bin}, false},
		"what is not there":      {[]cell.Landlock{{FS: all, Rules: rules{gone}}}, rules{gone, read}, true},
	} {
		var s Set
		for _, l := range c.ahead {
			_ = s.Complete(&l)
		}
		if err := s.Complete(&cell.Landlock{FS: all, Rules: c.run}); err != nil {
			t.Fatal(err)
		}
		if got := reads(t, &s, secret); got != c.allowed {
			t.Errorf("%s: it can read: %v", name, got)
		}
		s.Forget()
		if s.FD() != -1 {
			t.Errorf("%s: forgotten, and still %d", name, s.FD())
		}
	}
}

// What the kernel does not take is an error that names it.
func TestFault(t *testing.T) {
	if ABI() == 0 {
		t.Skip("UNPROVEN HERE: this kernel has no Landlock")
	}
	rule := func(r cell.Rule) cell.Landlock { return cell.Landlock{FS: readFile, Rules: []cell.Rule{r}} }
	for text, l := range map[string]cell.Landlock{
		"ruleset: invalid argument":                                 {FS: 1 << 60},
		"rule 0: /no/such: no such file or directory":               rule(cell.Rule{Path: "/no/such", Access: readFile}),
		"rule 0: /proc/self/exe: too many levels of symbolic links": rule(cell.Rule{Path: "/proc/self/exe", Access: readFile, Plain: true}),
	} {
		var s Set
		err := s.Complete(&l)
		if f := new(Fault); !errors.As(err, &f) || err.Error() != text || s.FD() != -1 {
			t.Errorf("%v, want %q", err, text)
		}
	}
	if _, err := exec.LookPath("true"); err != nil {
		t.Error("the test itself is under no rules", err)
	}
}
