//go:build unix

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/exetest"
)

func TestFail(t *testing.T) {
	for errno, want := range map[error]struct {
		reason palyra.Reason
		code   palyra.Code
	}{
		unix.ENOENT: {palyra.ReasonFileNotFound, palyra.NotFound}, unix.ELOOP: {palyra.ReasonPathInvalid, palyra.Denied},
		unix.EXDEV:   {palyra.ReasonPathOutside, palyra.Denied},
		unix.ENOTDIR: {palyra.ReasonPathInvalid, palyra.Invalid}, unix.ENAMETOOLONG: {palyra.ReasonPathInvalid, palyra.Invalid},
		unix.EISDIR: {palyra.ReasonNotRegularFile, palyra.Invalid}, unix.ENXIO: {palyra.ReasonNotRegularFile, palyra.Invalid},
		unix.EACCES: {palyra.ReasonPermission, palyra.Denied}, unix.EPERM: {palyra.ReasonPermission, palyra.Denied},
		unix.EROFS:  {palyra.ReasonPermission, palyra.Denied},
		unix.ENOSPC: {palyra.ReasonDiskFull, palyra.Unavailable}, unix.EDQUOT: {palyra.ReasonDiskFull, palyra.Unavailable},
		unix.EFBIG: {palyra.ReasonFileTooLarge, palyra.Exhausted}, unix.EEXIST: {palyra.ReasonPlanChanged, palyra.Conflict},
		unix.EIO:            {palyra.ReasonInternal, palyra.Internal},
		io.ErrUnexpectedEOF: {palyra.ReasonInternal, palyra.Internal},
	} {
		got := fail("read", "dir/f", fmt.Errorf("wrapped: %w", errno))
		e := palyra.AsError(got)
		if e.Reason != want.reason || e.Code != want.code || !errors.Is(got, errno) {
			t.Errorf("%v: %s %s (%v)", errno, e.Reason, e.Code, got)
		}
		if e.Code != palyra.Internal && (!strings.Contains(e.Text, "dir/f") || strings.Contains(e.Text, "wrapped")) {
			t.Errorf("%v: text %q", errno, e.Text)
		}
	}
	if fail("read", "f", nil) != nil {
		t.Error("no error failed")
	}
	own := palyra.Errorf(palyra.Expired, palyra.ReasonTimedOut, "x")
	if got := fail("read", "f", own); got != error(own) {
		t.Errorf("an error in words became %v", got)
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct{ dir, file, made uint32 }{
		{0o755, 0o644, 0o755},
		{0o700, 0o600, 0o700},
		{0o775, 0o664, 0o775},
		{0o777, 0o664, 0o775},
		{0o2750, 0o640, 0o750},
		{0o500, 0o600, 0o700},
		{0o000, 0o600, 0o700},
		{0o711, 0o600, 0o700},
		{0o751, 0o640, 0o750},
	} {
		if f, d := fileMode(c.dir), dirMode(fileMode(c.dir)); f != c.file || d != c.made {
			t.Errorf("%04o: file %04o, directory %04o", c.dir, f, d)
		}
	}
	for _, c := range []struct{ mode, on, off uint32 }{
		{0o644, 0o755, 0o644},
		{0o600, 0o700, 0o600},
		{0o755, 0o755, 0o644},
		{0o040, 0o050, 0o040},
	} {
		if on, off := executable(c.mode, true), executable(c.mode, false); on != c.on || off != c.off {
			t.Errorf("%04o: on %04o, off %04o", c.mode, on, off)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct{ dir, rel, want string }{{"a", "a/b/c", "a/b"}, {"a/b", "a/b/c", "a/b/c"}, {"a/b/c", "a/b/c", ""}} {
		if got := nextComponent(c.dir, c.rel); got != c.want {
			t.Errorf("%s to %s: %q", c.dir, c.rel, got)
		}
	}
}

func TestArrange(t *testing.T) {
	set := []change{{path: "b/c"}, {path: "a"}, {path: "b/d"}}
	if err := arrange(set); err != nil || set[0].path != "a" || set[2].path != "b/d" {
		t.Errorf("%v %v", set, err)
	}
	for _, bad := range [][]change{{{path: "a"}, {path: "a"}}, {{path: "a/b/c"}, {path: "a"}}, {{path: "a"}, {path: "a-"}, {path: "a/b"}}} {
		if err := arrange(bad); palyra.AsError(err).Reason != palyra.ReasonPatchMismatch {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestBound(t *testing.T) {
	c := []change{{path: "a", before: state{exists: true, digest: "d", mode: 1}}, {path: "b", mode: 0o600}}
	from := []source{{"s", state{digest: "d", mode: 1}}, {"a", c[0].before}, {"s", state{digest: "d", mode: 1}}}
	var p palyra.Plan
	bind(&p, c, from)
	want := []palyra.Input{{Path: "a", Digest: "d", Mode: 1}, {Path: "b", Mode: 0o600}, {Path: "s", Digest: "d", Mode: 1}}
	if !slices.Equal(p.Inputs, want) || !slices.Equal(p.Reads, []string{"a", "s"}) || !slices.Equal(p.Writes, []string{"a", "b"}) {
		t.Errorf("%+v", p)
	}
	if err := bound(p, c, from); err != nil {
		t.Error(err)
	}
	for name, other := range map[string][]source{
		"source digest": {{"s", state{digest: "e", mode: 1}}, from[1]}, "source mode": {{"s", state{digest: "d", mode: 2}}, from[1]},
		"source path": {{"r", from[0].state}, from[1]},
		"no source":   nil, "fewer sources": from[:1],
	} {
		if err := bound(p, c, other); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, other := range map[string][]change{
		"digest": {{path: "a", before: state{exists: true, digest: "e", mode: 1}}, c[1]},
		"mode":   {{path: "a", before: state{exists: true, digest: "d", mode: 2}}, c[1]},
		"path":   {c[0], {path: "c", mode: 0o600}}, "fewer": c[:1], "appeared": {c[0], {path: "b", before: state{exists: true, digest: "d"}}},
		"new mode": {c[0], {path: "b", mode: 0o644}},
	} {
		if err := bound(p, other, from); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Both ways to swap and to move do the same, and take no name that is in use.
func TestRenames(t *testing.T) {
	for _, d := range []disk{{}, {noExchange: true, noReplaceFlag: true}} {
		b := newBox(t, os.Geteuid())
		dir, err := os.Open(b.dir)
		b.ok(err)
		defer func() { _ = dir.Close() }()
		fd := int(dir.Fd())
		b.put("a", "A", 0o644)
		b.put("b", "B", 0o644)
		b.ok(d.exchange(fd, "a", "b"))
		if b.get("a") != "B" || b.get("b") != "A" || len(tree(t, b.dir)) != 3 {
			t.Errorf("%+v: %v", d, tree(t, b.dir))
		}
		if err := d.exchange(fd, "a", "none"); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%+v: exchange with nothing: %v", d, err)
		}
		if err := d.exchange(fd, "none", "b"); !errors.Is(err, unix.ENOENT) || b.get("b") != "A" || len(tree(t, b.dir)) != 3 {
			t.Errorf("%+v: exchange of nothing: %v, %v", d, err, tree(t, b.dir))
		}
		if err := d.move(fd, "a", "b"); !errors.Is(err, unix.EEXIST) || b.get("b") != "A" {
			t.Errorf("%+v: move onto another: %v", d, err)
		}
		b.ok(d.move(fd, "a", "c"))
		if b.get("c") != "B" || len(tree(t, b.dir)) != 3 {
			t.Errorf("%+v: %v", d, tree(t, b.dir))
		}
	}
}

func TestTurns(t *testing.T) {
	var turn turns
	var inside, most, total int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			release, err := turn.take(t.Context(), 1)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			inside++
			total++
			most = max(most, inside)
			mu.Unlock()
			mu.Lock()
			inside--
			mu.Unlock()
			release()
		})
	}
	wg.Wait()
	if most != 1 || total != 20 {
		t.Errorf("%d at once, %d in all", most, total)
	}
	release, err := turn.take(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := turn.take(t.Context(), 2) // another file system does not wait
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turn.take(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	release()
}

// A directory that hands its group down does so for directories made in it.
func TestMadeDirectoriesKeepTheGroupBit(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.mkdir("d")
	b.ok(os.Chmod(b.path("d"), 0o750|os.ModeSetgid))
	b.must("write", args{"path": "d/e/f", "content": "x", "make_dirs": true})
	if fi, _ := b.stat("d/e"); fi.Mode() != os.ModeDir|os.ModeSetgid|0o750 {
		t.Errorf("%v", fi.Mode())
	}
	if fi, _ := b.stat("d/e/f"); fi.Mode() != 0o640 {
		t.Errorf("%v", fi.Mode())
	}
}

// Somebody who makes the same directories at the same time is no obstacle, and
// loses nothing when our call fails.
func TestDirectoriesMadeByTwo(t *testing.T) {
	each(t, func(b *box) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if _, err := b.call("write", args{"path": fmt.Sprintf("x/y/z/f%d", i), "content": "x", "make_dirs": true}); err != nil {
					b.Errorf("%d: %v: %v", i, err, palyra.AsError(err).Cause)
				}
			})
		}
		wg.Wait()
		if got := tree(b.T, b.dir); len(got) != 4+8 {
			b.Errorf("%v", got)
		}
		b.shared.at = func(step string) {
			if step == "staged" {
				b.put("new/theirs", "kept", 0o644)
				b.put("new/f", "theirs", 0o644)
			}
		}
		b.refused(palyra.ReasonPlanChanged, "write", args{"path": "new/f", "content": "ours", "make_dirs": true})
		if b.get("new/theirs") != "kept" || b.get("new/f") != "theirs" {
			b.Errorf("%v", tree(b.T, b.dir))
		}
	})
}

// A program that runs can be replaced; the running one is left alone.
func TestReplaceARunningProgram(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.ok(exetest.Copy(b.path("prog"), "/bin/sleep"), os.Chmod(b.path("prog"), 0o755))
	b.own(b.path("prog"))
	p, err := os.StartProcess(b.path("prog"), []string{"sleep", "60"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil}})
	b.ok(err)
	defer func() {
		_ = p.Kill()
		_, _ = p.Wait()
	}()
	b.must("write", args{"path": "prog", "content": "#!/bin/sh\n"})
	if err := p.Signal(syscall.Signal(0)); err != nil || b.get("prog") != "#!/bin/sh\n" {
		t.Errorf("%v %q", err, b.get("prog"))
	}
}

func TestSearchBounds(t *testing.T) {
	b := newBox(t, os.Geteuid())
	for i := range 10 {
		b.put(fmt.Sprintf("f%d", i), "needle\n", 0o644)
	}
	for why, bound := range map[string]bounds{
		"files": {files: 3, bytes: 1 << 20, time: 1 << 40}, "bytes": {files: 100, bytes: 14, time: 1 << 40},
		"time": {files: 100, bytes: 1 << 20, time: -1},
		"":     {files: 100, bytes: 1 << 20, time: 1 << 40},
	} {
		s, err := newSearch(t.Context(), searchArgs{Pattern: "needle"}, bound)
		b.ok(err)
		err = b.shared.inWorkspace(t.Context(), palyra.WorkspaceRef{Path: b.dir, Owner: int64(b.owner)},
			func(r *root) error { return s.start(r, ".") })
		if s.res.Truncated != why || (why == "") != (err == nil) || why == "files" && s.res.Searched != 3 ||
			why == "bytes" && s.res.Searched != 2 {
			t.Errorf("%q: %+v, %v", why, s.res, err)
		}
	}
	slow, err := newSearch(t.Context(), searchArgs{Pattern: "x"}, bounds{files: 1, bytes: 1, time: -1})
	b.ok(err)
	if err := slow.text("f", []byte(strings.Repeat("\n", 1000))); !errors.Is(err, errEnough) || slow.res.Truncated != "time" {
		t.Errorf("inside one file: %v, %+v", err, slow.res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone, err := newSearch(ctx, searchArgs{Pattern: "x"}, searchBounds)
	b.ok(err)
	if err := gone.text("f", []byte(strings.Repeat("\n", 1000))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
