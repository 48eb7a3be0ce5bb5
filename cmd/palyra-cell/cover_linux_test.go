package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// covered is a Spec that runs what is laid over path.
func covered(path string, args ...string) cell.Spec {
	s := open(append([]string{path}, args...)...)
	s.Sealed, s.Cover, s.Cwd = true, true, filepath.Dir(path)
	return s
}

// A script that was approved is what runs, at the path where it belongs, whatever
// lies there now; nobody can change it there, and the workspace keeps its own.
func TestCover(t *testing.T) {
	const approved = `#!/bin/sh
echo "approved $0 $1"
cat "$0" | wc -c
echo x > "$0"; chmod 700 "$0"; rm -f "$0"; mv "$0" away; mv -f other "$0"; umount "$0"
cat "$0" | wc -c
`
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w, "sub/", "sub/run", "sub/other")
		path := filepath.Join(dir, "sub/run")
		h, _ := inhabit(t, w, plain(dir))
		h.order(covered(path, "arg"), sealedFile(t, []byte(approved)))
		h.expect(cell.ReportStarted)
		out, errs := <-h.stdout, <-h.stderr
		size := len(approved)
		if want := "approved " + path + " arg\n" + fmt.Sprintf("%d\n%d\n", size, size); out != want {
			t.Errorf("%q, %q", out, errs)
		}
		if n := strings.Count(errs, "\n"); n < 6 {
			t.Errorf("only %d complaints: %s", n, errs)
		}
		h.expect(cell.ReportExited)
		h.expect(cell.ReportEnded)
		if b, err := os.ReadFile(path); err != nil || string(b) != "first sub/run" {
			t.Errorf("the workspace's own is %q, %v", b, err)
		}
	})
}

// A program is one thing to itself and to others, and may be read-only mounts'
// own. What is prepared ahead does not spoil it.
func TestCoverProgram(t *testing.T) {
	dir := workspace(t, me, "tool")
	path := filepath.Join(dir, "tool")
	r := plain(dir)
	r.Seals = seals(t, dir, map[string]bool{"tool": true}, "tool")
	h, _ := inhabit(t, me, r)
	b, err := os.ReadFile("/usr/bin/readlink")
	if err != nil {
		t.Fatal(err)
	}
	s := covered(path, "/proc/self/exe")
	if out, _ := h.runs(s, sealedFile(t, b)); out != path+"\n" {
		t.Errorf("%q", out)
	}
}

// What cannot be covered is not run, neither from there nor from elsewhere.
func TestCannotCover(t *testing.T) {
	dir := workspace(t, me, "file", "sub/")
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "way")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]unix.Errno{
		"missing": unix.ENOENT, "sub": unix.EINVAL, "link": unix.EINVAL, "way/x": unix.ELOOP,
		"file/x": unix.ENOTDIR,
	} {
		h, _ := inhabit(t, me, plain(dir))
		s := covered(filepath.Join(dir, path))
		s.Cwd = "/"
		h.order(s, sealedCopy(t, mirror))
		if r := h.uncovered; r.Kind != cell.ReportFailed || r.Step != "cover" || unix.Errno(r.Errno) != want {
			t.Errorf("%s: %+v", path, r)
		}
	}
	h := start(t, me)
	h.order(covered(filepath.Join(dir, "file")), sealedCopy(t, mirror))
	if r := h.expect(cell.ReportFailed); r.Step != "cover" {
		t.Errorf("without a room: %+v", r)
	}
}
