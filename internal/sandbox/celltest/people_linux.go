package celltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/exetest"
)

// Ordinary is the user palyra-test, for whom tests run what root would not be
// stopped from. Root makes it when it is missing.
func Ordinary() (uid, gid int, err error) {
	const name = "palyra-test"
	u, err := user.Lookup(name)
	if err != nil {
		out, made := exec.Command("useradd", "--system", "--no-create-home", "--shell", "/bin/sh", name).CombinedOutput()
		if u, err = user.Lookup(name); err != nil { // somebody else may have made it meanwhile
			return 0, 0, fmt.Errorf("there is no user %s and none could be made: %w, %w %s", name, err, made, out)
		}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil || uid == 0 {
		return 0, 0, errors.Join(fmt.Errorf("user %s: %+v", name, u), err)
	}
	return uid, gid, nil
}

// Whom is who a run is for: an ordinary user, always.
func Whom(t testing.TB) (uid, gid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Geteuid(), os.Getegid()
	}
	uid, gid, err := Ordinary()
	if err != nil {
		t.Fatal(err)
	}
	return uid, gid
}

// AsOrdinary runs tests of this binary, those that run means, as somebody who may
// do nothing special: no cgroups, no other uids. At least so many must pass.
func AsOrdinary(t *testing.T, run string, least int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: what only root can do: the tests themselves run as an ordinary user")
	}
	cell, _ := Cell(t)
	uid, gid := Whom(t)
	dir := TempDir(t)
	bin, work := filepath.Join(dir, "again.test"), filepath.Join(dir, "work")
	if err := errors.Join(exetest.Copy(bin, "/proc/self/exe"), os.Chmod(bin, 0o755), os.Mkdir(work, 0o755),
		os.Chown(work, uid, gid)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-test.run", run, "-test.v", "-test.timeout=8m", "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Dir = work
	cmd.Env = append(os.Environ(), cellVar+"="+cell, "TMPDIR="+work, "HOME="+work)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.CombinedOutput()
	if n := strings.Count(string(out), "--- PASS"); err != nil || n < least {
		t.Errorf("as uid %d, %d tests passed: %v\n%s", uid, n, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "UNPROVEN HERE") {
			t.Logf("as uid %d: %s", uid, strings.TrimSpace(line))
		}
	}
}
