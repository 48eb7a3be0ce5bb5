package sandboxtest

import (
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"palyra/internal/exetest"
	"palyra/internal/sandbox/celltest"
)

// person is a user to run as.
type person struct {
	uid, gid int
	home     string
}

func self() person {
	home, _ := os.UserHomeDir()
	return person{os.Geteuid(), os.Getegid(), home}
}

// credential makes a process of ours run as the person. Only root needs it.
func (p person) credential() *syscall.SysProcAttr {
	if os.Geteuid() != 0 || p.uid == 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid), Groups: []uint32{}}}
}

// ordinary returns the user palyra-test, with a home, making what is missing.
func ordinary(t *testing.T) person {
	t.Helper()
	uid, gid, err := celltest.Ordinary()
	check(t, err)
	u, err := user.LookupId(strconv.Itoa(uid))
	check(t, err)
	if _, err := os.Stat(u.HomeDir); err != nil { // made by somebody who wanted none
		check(t, os.MkdirAll(u.HomeDir, 0o700))
		check(t, os.Chown(u.HomeDir, uid, gid))
	}
	return person{uid, gid, u.HomeDir}
}

// builtVar names a directory of programs that an earlier process built, for one that has no Go.
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

// Clean removes what Build built. A TestMain calls it; a process that was handed the programs leaves them.
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
	return celltest.TempDir(t)
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	check(t, exetest.Copy(to, from))
	check(t, os.Chmod(to, mode))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
