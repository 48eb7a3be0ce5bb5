package files

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Property: opening one component at a time lets through exactly what openat2
// does, and opens the same thing. (They may name the obstacle differently.)
func TestWalkOpenIsOpenat2(t *testing.T) {
	if !hasOpenat2() {
		t.Log("the kernel, or this run of the tests, has no openat2 to compare with")
		return
	}
	b := newBox(t, os.Geteuid())
	b.put("d/e/f", "x", 0o644)
	b.put("f", "x", 0o644)
	for link, target := range map[string]string{
		"l": "f", "ld": "d", "out": "../out", "d/up": "..", "d/abs": b.dir, "loop": "loop",
		"proc": "/proc/self/root",
	} {
		b.link(target, link)
	}
	top, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	b.ok(err)
	defer func() { _ = unix.Close(top) }()
	name := rapid.SampledFrom([]string{"d", "e", "f", "l", "ld", "out", "up", "abs", "loop", "proc", "none", "secret", "..", "."})
	flags := rapid.SampledFrom([]int{
		unix.O_RDONLY | unix.O_NONBLOCK, unix.O_PATH | unix.O_DIRECTORY,
		unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK,
	})
	opened := 0
	rapid.Check(t, func(t *rapid.T) {
		rel := strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "rel"), "/")
		how := flags.Draw(t, "flags")
		if strings.Contains("/"+rel+"/", "/../") { // clean leaves none; the walk refuses all, the kernel those that lead out
			if fd, err := walkOpen(top, rel, how); err == nil {
				_ = unix.Close(fd)
				t.Fatalf("%s was opened", rel)
			}
			return
		}
		one, errOne := openBeneath(top, rel, how)
		two, errTwo := walkOpen(top, rel, how)
		if (errOne == nil) != (errTwo == nil) {
			t.Fatalf("%s %x: %v, %v", rel, how, errOne, errTwo)
		}
		if errOne != nil {
			return
		}
		opened++
		var a, b unix.Stat_t
		if err := errors.Join(unix.Fstat(one, &a), unix.Fstat(two, &b), unix.Close(one), unix.Close(two)); err != nil || a.Ino != b.Ino ||
			a.Dev != b.Dev {
			t.Fatalf("%s: %d and %d, %v", rel, a.Ino, b.Ino, err)
		}
	})
	if opened == 0 {
		t.Error("nothing was opened")
	}
}

// No descriptor stays open, whatever happens to a call.
func TestNoDescriptorLeaks(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	b := newBox(t, os.Geteuid())
	b.put("d/f", "x\n", 0o644)
	b.link("../out", "l")
	work := func() {
		for _, c := range []struct {
			tool string
			args args
		}{
			{"read", args{"path": "d/f"}},
			{"read", args{"path": "l/secret"}},
			{"read", args{"path": "d"}},
			{"read", args{"path": "none/x"}},
			{"list", args{"recursive": true}},
			{"list", args{"path": "d/f"}},
			{"search", args{"pattern": "x"}},
			{"search", args{"pattern": "x", "path": "d/f"}},
			{"write", args{"path": "d/g", "content": "y", "make_dirs": true}},
			{"write", args{"path": "l/g", "content": "y"}},
			{"write", args{"path": "d", "content": "y"}},
			{"apply_patch", args{"patch": "--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-x\n+x\n--- /dev/null\n+++ b/l/x\n@@ -0,0 +1 @@\n+h\n"}},
		} {
			_, _ = b.call(c.tool, c.args)
		}
	}
	work()
	before := count()
	for range 20 {
		work()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// What is mounted below a directory is told apart from what is in it, and a change
// there says so, as does one of a file with more names.
func TestMountsAndHardLinksAreRemarked(t *testing.T) {
	open := func(path string) int {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	top := open("/")
	if sameMount(top, open("/proc")) || !sameMount(top, open("/")) || !sameMount(top, top) {
		t.Error("mounts are not told apart")
	}
	r := &root{fd: top, path: "/"}
	s, err := r.look("proc/there-is-no-such-file")
	if err != nil || !s.mounted {
		t.Errorf("%+v, %v", s, err)
	}
	c := change{path: "a", action: "modify", before: state{exists: true, links: 2, mounted: true}}
	notes := strings.Join(c.remarks(), "\n")
	for _, want := range []string{"a has 2 names", "outside the workspace", "mounted in the workspace"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in:\n%s", want, notes)
		}
	}
}
