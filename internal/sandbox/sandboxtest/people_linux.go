package sandboxtest

import (
	"io"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// person is somebody to run as.
type person struct {
	uid, gid int
	home     string
}

func self() person {
	home, _ := os.UserHomeDir()
	return person{os.Geteuid(), os.Getegid(), home}
}

// credential makes a process of ours theirs. Only root needs it.
func (p person) credential() *syscall.SysProcAttr {
	if os.Geteuid() != 0 || p.uid == 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid), Groups: []uint32{}}}
}

// ordinary returns the user palyra-test, making it when it is missing.
func ordinary(t *testing.T) person {
	t.Helper()
	const name = "palyra-test"
	u, err := user.Lookup(name)
	if err != nil {
		out, made := exec.Command("useradd", "-m", name).CombinedOutput()
		if u, err = user.Lookup(name); err != nil { // somebody else may have made it meanwhile
			t.Fatalf("there is no user %s and none could be made: %v, %v %s", name, err, made, out)
		}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil || uid == 0 {
		t.Fatalf("user %s: %+v", name, u)
	}
	if _, err := os.Stat(u.HomeDir); err != nil { // made by somebody who wanted none
		check(t, os.MkdirAll(u.HomeDir, 0o700))
		check(t, os.Chown(u.HomeDir, uid, gid))
	}
	return person{uid, gid, u.HomeDir}
}

// builtVar names a directory of programs that an earlier process built, for one
// that has no Go.
const builtVar = "PALYRA_SANDBOXTEST_BUILT"

var builds struct {
	sync.Mutex
	dir string
}

func builtDir() string {
	builds.Lock()
	defer builds.Unlock()
	return builds.dir
}

// Build builds a program of this module without cgo, once for the process and
// those it starts again as others, and returns where it is.
func Build(t *testing.T, pkg string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if builds.dir == "" {
		builds.dir = os.Getenv(builtVar)
	}
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "palyra-sandboxtest-")
		check(t, err)
		check(t, os.Chmod(dir, 0o755))
		builds.dir = dir
	}
	to := filepath.Join(builds.dir, path.Base(pkg))
	if _, err := os.Stat(to); err == nil {
		return to
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return to
}

// Clean removes what Build built. A TestMain calls it; a process that was handed
// the programs leaves them.
func Clean() {
	builds.Lock()
	defer builds.Unlock()
	if builds.dir != "" && os.Getenv(builtVar) == "" {
		_ = os.RemoveAll(builds.dir)
	}
}

// passable is a temporary directory that every user can enter.
func passable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "palyra-sandboxtest-")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	dir, err = filepath.EvalSymlinks(dir)
	check(t, err)
	return dir
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	check(t, err)
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	check(t, err)
	_, err = io.Copy(out, in)
	check(t, err)
	check(t, out.Chmod(mode))
	check(t, out.Close())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
