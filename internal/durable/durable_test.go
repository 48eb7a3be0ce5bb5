//go:build unix

package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// asHolder makes the test binary take a lock and hold it until stdin ends.
const asHolder = "PALYRA_TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(asHolder); path != "" {
		if _, err := Lock(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // without Release: the kernel must drop it
	}
	os.Exit(m.Run())
}

func TestWriteFileReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, want := range []string{"one", "", strings.Repeat("two", 1000)} {
		if err := WriteFile(path, []byte(want), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", fi.Mode())
	}
	alone(t, dir, "f")
}

func TestWriteFileIgnoresUmask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	old := syscall.Umask(0o777)
	defer syscall.Umask(old)
	if err := WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
}

func TestWriteFileLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil { // a rename onto it fails
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "d"), []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	alone(t, dir, "d")
	if err := WriteFile(filepath.Join(dir, "none", "f"), []byte("x"), 0o600); err == nil {
		t.Error("written into a directory that is not there")
	}
	alone(t, dir, "d")
	if err := SyncDir(filepath.Join(dir, "none")); err == nil {
		t.Error("synced a directory that is not there")
	}
}

func TestWriteFileDoesNotFollowALink(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(victim, []byte("old"), 0o600), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(victim); string(got) != "old" {
		t.Errorf("the link's target became %q", got)
	}
}

func TestLockHoldsOnceAndComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second lock: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestLockSurvivesRemovalOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if same, err := flock(f, path); same || err != nil {
		t.Errorf("a removed lock file counts as the lock: %v %v", same, err)
	}
}

func TestLockRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(filepath.Join(dir, "to"), link)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{fifo, link, dir, filepath.Join(dir, "none", "lock")} {
		if h, err := Lock(p); err == nil {
			t.Errorf("%s: locked", p)
			_ = h.Release()
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "to")); err == nil {
		t.Error("the lock went through a link")
	}
}

func TestLockEndsWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, keep, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.StartProcess(exe, []string{exe}, &os.ProcAttr{
		Env: append(os.Environ(), asHolder+"="+path), Files: []*os.File{in, say, os.Stderr},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = errors.Join(in.Close(), say.Close())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	_, err = Lock(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != child.Pid {
		t.Errorf("while the child holds it: %v", err)
	}
	if p, err := Holder(path); err != nil || p == nil || p.Pid != child.Pid {
		t.Errorf("the holder: %v, %v", p, err)
	}
	var unproven *UnprovenError
	for _, text := range []string{strconv.Itoa(os.Getpid()) + "\n", "", "-1\n", "x"} { // another's number, as a crash could leave it
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := Holder(path); !errors.As(err, &unproven) || p != nil {
			t.Errorf("a file that says %q: %v, %v", text, p, err)
		}
	}
	_ = child.Kill()
	if _, err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	_ = errors.Join(keep.Close(), out.Close())
	for _, free := range []string{path, path + "x"} {
		if p, err := Holder(free); p != nil || err != nil {
			t.Errorf("nobody holds %s: %v, %v", free, p, err)
		}
	}
	h, err := Lock(path)
	if err != nil {
		t.Fatalf("after the child was killed: %v", err)
	}
	_ = h.Release()
}

func TestCheckPrivate(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	if err := PrivateDir(filepath.Join(base, "a", "b")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "a", "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckPrivate(file); err != nil {
		t.Errorf("private file: %v", err)
	}
	for name, spoil := range map[string]func() error{
		"readable":    func() error { return os.Chmod(file, 0o640) },
		"writable":    func() error { return os.Chmod(file, 0o602) },
		"open parent": func() error { return os.Chmod(base, 0o702) },
		"link": func() error {
			return errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		var unsafe *UnsafeError
		if err := CheckPrivate(file); !errors.As(err, &unsafe) || unsafe.Fix == "" || unsafe.Error() == "" {
			t.Errorf("%s: %v", name, err)
		}
		_ = errors.Join(os.RemoveAll(file), os.RemoveAll(file+".real"), os.Chmod(base, 0o700))
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckPrivate(filepath.Join(base, "none")); err == nil {
		t.Error("a missing file is private")
	}
}

func TestCheckPrivateRefusesAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 { // what belongs to root is another's for us
		var unsafe *UnsafeError
		if err := CheckPrivate("/etc"); !errors.As(err, &unsafe) {
			t.Errorf("/etc: %v", err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "d")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	var unsafe *UnsafeError
	if err := CheckPrivate(dir); !errors.As(err, &unsafe) {
		t.Errorf("another's directory: %v", err)
	}
	inner := filepath.Join(dir, "in")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := CheckPrivate(inner); !errors.As(err, &unsafe) {
		t.Errorf("a directory in another's: %v", err)
	}
}

// alone checks that nothing but the named entries is in dir.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("in %s: %q, want %q", dir, got, names)
	}
}

// Without replace a file that is there stays, also one that comes while another is written; what fails leaves nothing.
func TestWriteWithoutReplacing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	fill := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	broken := errors.New("broken")
	if err := Write(path, 0o600, false, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	alone(t, dir)
	if err := Write(path, 0o600, false, fill("one")); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, 0o600, false, fill("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	alone(t, dir, "f")
	link := filepath.Join(dir, "l")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, 0o600, false, fill("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a link that leads nowhere: %v", err)
	}
	if err := Write(path, 0o600, true, fill("two")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "two" {
		t.Errorf("%q, %v", b, err)
	}
	alone(t, dir, "f", "l")
}
