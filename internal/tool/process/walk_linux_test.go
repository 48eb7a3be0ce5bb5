package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
)

func TestCwd(t *testing.T) {
	each(t, func(b *box) {
		b.mkdir("a/b")
		b.mkdir("..hidden")
		b.link("a/b", "in")
		b.link(b.path("a"), "abs")
		b.link(b.dir, "self")
		for cwd, want := range map[string]string{
			".": "", "a": "a", "a/": "a", "./a/./b": "a/b", "a/../a": "a", b.dir: "", b.path("a/b"): "a/b", "in": "a/b", "abs/b": "a/b",
			"self/a": "a", "..hidden": "..hidden",
		} {
			if p := b.must(args{"command": "touch", "cwd": cwd}); p.Cwd != b.path(want) {
				b.Errorf("%s: %s", cwd, p.Cwd)
			}
		}
		other := filepath.Join(filepath.Dir(b.dir), "spelled")
		b.ok(os.Symlink(b.dir, other))
		b.asked = other
		if p := b.must(args{"command": "touch", "cwd": other + "/a"}); p.Cwd != b.path("a") {
			b.Error(p.Cwd)
		}
		if p := b.must(args{"command": "touch"}); p.Cwd != b.dir {
			b.Error(p.Cwd)
		}
	})
}

func TestCwdRefused(t *testing.T) {
	each(t, func(b *box) {
		b.put("file", "x", 0o755)
		b.link(b.out, "out")
		b.link("../out", "rel-out")
		b.link("..", "up")
		b.link("round", "round")
		b.link("gone", "dangling")
		sibling := b.dir + "2"
		b.ok(os.Mkdir(sibling, 0o755))
		for cwd, want := range map[string]palyra.Reason{
			"..": palyra.ReasonPathOutside, "../ws2": palyra.ReasonPathOutside, "a/../../out": palyra.ReasonPathOutside,
			"/":    palyra.ReasonPathOutside,
			"/etc": palyra.ReasonPathOutside, sibling: palyra.ReasonPathOutside, b.out: palyra.ReasonPathOutside,
			b.dir + "/../out": palyra.ReasonPathOutside,
			"out":             palyra.ReasonPathOutside, "rel-out": palyra.ReasonPathOutside, "up": palyra.ReasonPathOutside,
			"file": palyra.ReasonPathInvalid, "file/x": palyra.ReasonPathInvalid, "round": palyra.ReasonPathInvalid,
			"none": palyra.ReasonFileNotFound, "dangling": palyra.ReasonFileNotFound, strings.Repeat("x", 300): palyra.ReasonPathInvalid,
		} {
			b.refused(want, "", args{"command": "touch", "cwd": cwd})
		}
		b.link("/proc/self/cwd", "proc")
		b.refused(palyra.ReasonPathInvalid, "", args{"command": "touch", "cwd": "proc"})
	})
}

// The workspace's own path has no links: one that is there now is a swap.
func TestWorkspaceSwapped(t *testing.T) {
	each(t, func(b *box) {
		b.ok(os.Rename(b.dir, b.dir+".was"), os.Symlink(b.out, b.dir))
		b.refused(palyra.ReasonPlanChanged, "anew", run("touch x"))
		b.ok(os.Remove(b.dir))
		b.refused(palyra.ReasonFileNotFound, "", run("touch x"))
	})
}

// What lies in the workspace can be changed by a run, whatever its mode says.
func TestWeigh(t *testing.T) {
	w := &world{user: userRights{uid: 4242, groups: []uint32{4242}}, workspace: "/srv/ws"}
	open := func(mode uint32, names ...string) (all []step) {
		for _, n := range names {
			all = append(all, step{real: n, st: *stat(mode, 0, 0)})
		}
		return all
	}
	for _, c := range []struct {
		open     []step
		writable bool
	}{
		{open(0o755, "/"), false},
		{open(0o755, "/", "/srv", "/srv/prog"), false},
		{open(0o755, "/", "/srv", "/srv/ws2"), false},
		{open(0o755, "/", "/srv", "/srv/ws", "/srv/ws/prog"), true},
		{append(open(0o757, "/", "/srv"), open(0o755, "/srv/prog")...), true},
		{append(open(0o755, "/", "/srv"), open(0o757, "/srv/prog")...), true},
	} {
		if writable := w.writable(c.open); writable != c.writable {
			t.Errorf("%s %v, want %v", c.open[len(c.open)-1].real, writable, c.writable)
		}
	}
}

// Planning leaves no trace, and equal worlds give equal plans.
func TestPlanningChangesNothing(t *testing.T) {
	each(t, func(b *box) {
		b.tools("make", "python3")
		b.put("x.py", "1", 0o644)
		b.put("script", "#!/usr/bin/env sh\n", 0o755)
		b.put("Makefile", "all:", 0o644)
		b.link("script", "l")
		before := tree(b, b.dir)
		for _, line := range []string{"touch x", "bin/make", "bin/python3 x.py", "./l", "bin/python3 none", "./none", "mkdir -p a/b"} {
			one, err1 := b.plan(run(line))
			two, err2 := b.plan(run(line))
			if diff := cmp.Diff(one, two); diff != "" || (err1 == nil) != (err2 == nil) {
				b.Errorf("%s: %s %v %v", line, diff, err1, err2)
			}
		}
		if diff := cmp.Diff(before, tree(b, b.dir)); diff != "" {
			b.Error(diff)
		}
	})
}

// No descriptor stays open, whether a plan succeeds or fails.
func TestNoDescriptorStays(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3")
		b.put("script", "#!/usr/bin/env sh\n", 0o755)
		b.link("loop", "loop")
		b.ok(unix.Mkfifo(b.path("fifo"), 0o666))
		count := func() int {
			names, err := os.ReadDir("/proc/self/fd")
			b.ok(err)
			return len(names)
		}
		lines := []string{
			"touch x", "./script", "./loop", "./none", "./fifo", "bin/python3 loop", "bin/python3 fifo", "bin/python3 none/x",
			"nowhere", "/dev/null",
		}
		for _, line := range lines {
			_, _ = b.plan(run(line))
		}
		before := count()
		for range 20 {
			for _, line := range lines {
				_, _ = b.plan(run(line))
			}
		}
		if after := count(); after > before+5 { // the runtime's own may come and go
			b.Errorf("%d descriptors, %d before", after, before)
		}
	})
}

// While somebody keeps swapping a directory for a link to the outside and back,
// no plan has a working directory outside, and no digest is of a file outside
// under a name inside.
func TestSwapping(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3")
		inside := palyra.SumBytes([]byte(b.put("d/x.py", "inside", 0o644)))
		secret := filepath.Join(b.out, "x.py")
		b.ok(os.WriteFile(secret, []byte("outside"), 0o644))
		b.own(secret)
		b.link(b.out, "l")
		stop := make(chan struct{})
		var swaps atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if unix.Renameat2(unix.AT_FDCWD, b.path("d"), unix.AT_FDCWD, b.path("l"), unix.RENAME_EXCHANGE) == nil {
					swaps.Add(1)
				}
				runtime.Gosched()
			}
		})
		good, bad := 0, 0
		for i := 0; i < 3000 && (i < 300 || good == 0 || bad == 0); i++ {
			p, err := b.plan(args{"command": b.path("bin/python3"), "args": []string{b.path("d/x.py")}, "cwd": "d"})
			if err != nil {
				bad++
				continue
			}
			good++
			if !subpath.Within(b.dir, p.Cwd) {
				b.Fatalf("cwd %s", p.Cwd)
			}
			for _, in := range p.Inputs {
				if !filepath.IsAbs(in.Path) && in.Digest != "" && in.Digest != inside {
					b.Fatalf("%s has the digest of another file", in.Path)
				}
			}
		}
		close(stop)
		wg.Wait()
		b.Logf("%d plans, %d refused, %d swaps", good, bad, swaps.Load())
	})
}
