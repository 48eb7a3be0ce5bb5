//go:build unix

package files

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func (b *box) stat(rel string) (os.FileInfo, *syscall.Stat_t) {
	b.Helper()
	fi, err := os.Lstat(b.path(rel))
	b.ok(err)
	return fi, fi.Sys().(*syscall.Stat_t)
}

func TestWriteCreates(t *testing.T) {
	each(t, func(b *box) {
		old := syscall.Umask(0o077) // the daemon's umask is not the workspace's
		defer syscall.Umask(old)
		got := b.must("write", args{"path": "new/dir/f", "content": "héllo\n", "make_dirs": true})
		if got["created"] != true || got["changed"] != true || got["path"] != "new/dir/f" || got["previous_sha256"] != "" ||
			b.get("new/dir/f") != "héllo\n" {
			b.Errorf("%v", got)
		}
		fi, st := b.stat("new/dir/f")
		if fi.Mode() != 0o644 || int(st.Uid) != b.owner {
			b.Errorf("mode %v uid %d", fi.Mode(), st.Uid)
		}
		fi, st = b.stat("new/dir")
		if fi.Mode() != os.ModeDir|0o755 || int(st.Uid) != b.owner {
			b.Errorf("directory: mode %v uid %d", fi.Mode(), st.Uid)
		}
		b.must("write", args{"path": "x.sh", "content": "#!/bin/sh\n", "executable": true, "mode": "create"})
		if fi, _ := b.stat("x.sh"); fi.Mode() != 0o755 {
			b.Errorf("mode %v", fi.Mode())
		}
		b.ok(os.Chmod(b.dir, 0o700))
		b.must("write", args{"path": "private", "content": ""})
		if fi, _ := b.stat("private"); fi.Mode() != 0o600 {
			b.Errorf("in a private directory: mode %v", fi.Mode())
		}
		b.must("write", args{"path": "bin", "content_b64": base64.StdEncoding.EncodeToString([]byte("a\x00\xff"))})
		if b.get("bin") != "a\x00\xff" {
			b.Errorf("%q", b.get("bin"))
		}
	})
}

func TestWriteReplaces(t *testing.T) {
	each(t, func(b *box) {
		b.put("f", "old\n", 0o640)
		b.ok(os.Link(b.path("f"), b.path("other")))
		before, _ := b.stat("f")
		got := b.must("write", args{"path": "f", "content": "new\n", "mode": "overwrite"})
		if got["created"] != false || got["changed"] != true || got["previous_sha256"] != string(palyra.SumBytes([]byte("old\n"))) ||
			b.get("f") != "new\n" {
			b.Errorf("%v", got)
		}
		after, st := b.stat("f")
		if after.Mode() != 0o640 || int(st.Uid) != b.owner || os.SameFile(before, after) {
			b.Errorf("mode %v uid %d same %v", after.Mode(), st.Uid, os.SameFile(before, after))
		}
		if b.get("other") != "old\n" {
			b.Errorf("the other name has %q", b.get("other"))
		}
		b.must("write", args{"path": "f", "content": "new\n", "executable": true})
		if fi, _ := b.stat("f"); fi.Mode() != 0o750 {
			b.Errorf("made executable: %v", fi.Mode())
		}
		same, _ := b.stat("f")
		if got := b.must("write", args{"path": "f", "content": "new\n"}); got["changed"] != false {
			b.Errorf("%v", got)
		}
		if now, _ := b.stat("f"); !os.SameFile(same, now) {
			b.Error("a write that changes nothing replaced the file")
		}
		b.ok(os.Chmod(b.path("f"), 0o755|os.ModeSetuid))
		b.must("write", args{"path": "f", "content": "third\n", "executable": false})
		if fi, _ := b.stat("f"); fi.Mode() != 0o644 {
			b.Errorf("set-id bit and execute bits: %v", fi.Mode())
		}
		if got := len(tree(b.T, b.dir)); got != 3 {
			b.Errorf("%d entries left: %v", got, tree(b.T, b.dir))
		}
	})
}

func TestWriteRefusals(t *testing.T) {
	each(t, func(b *box) {
		b.put("f", "x", 0o644)
		b.put("d/g", "x", 0o644)
		b.put("readonly", "x", 0o444)
		b.put("big", strings.Repeat("x", 100), 0o644)
		b.link("f", "link")
		b.link("d", "dlink")
		b.link("../out", "olink")
		b.link("nowhere", "dangling")
		b.ok(syscall.Mkfifo(b.path("fifo"), 0o666))
		b.own(b.path("fifo"))
		before, outside := tree(b.T, b.dir), tree(b.T, b.out)
		for _, c := range []struct {
			args args
			want palyra.Reason
		}{
			{args{"path": "f", "content": "y", "mode": "create"}, palyra.ReasonExists},
			{args{"path": "none", "content": "y", "mode": "overwrite"}, palyra.ReasonFileNotFound},
			{args{"path": "no/dir", "content": "y"}, palyra.ReasonFileNotFound},
			{args{"path": "f/x", "content": "y", "make_dirs": true}, palyra.ReasonPathInvalid},
			{args{"path": "link", "content": "y"}, palyra.ReasonPathInvalid},
			{args{"path": "dangling", "content": "y"}, palyra.ReasonPathInvalid},
			{args{"path": "dlink/g", "content": "y"}, palyra.ReasonPathInvalid},
			{args{"path": "olink/secret", "content": "y"}, palyra.ReasonPathInvalid},
			{args{"path": "olink/new/x", "content": "y", "make_dirs": true}, palyra.ReasonPathInvalid},
			{args{"path": "d", "content": "y"}, palyra.ReasonNotRegularFile},
			{args{"path": "fifo", "content": "y"}, palyra.ReasonNotRegularFile},
			{args{"path": "d/", "content": "y"}, palyra.ReasonPathInvalid},
			{args{"path": ".", "content": "y"}, palyra.ReasonPathInvalid},
			{args{"path": "../out/x", "content": "y"}, palyra.ReasonPathOutside},
			{args{"path": filepath.Join(b.out, "x"), "content": "y"}, palyra.ReasonPathOutside},
			{args{"path": "f", "content": "a\x00b"}, palyra.ReasonSchemaMismatch},
			{args{"path": "f", "content_b64": "!!"}, palyra.ReasonSchemaMismatch},
			{args{"path": "f"}, palyra.ReasonSchemaMismatch},
			{args{"path": "f", "content": "", "content_b64": ""}, palyra.ReasonSchemaMismatch},
			{args{"path": "a\x00b", "content": ""}, palyra.ReasonPathInvalid},
			{args{"path": strings.Repeat("n", 256), "content": ""}, palyra.ReasonPathInvalid},
		} {
			if e := b.refused(c.want, "write", c.args); e.Remedy == "" {
				b.Errorf("%v: no remedy", c.args)
			}
		}
		if os.Geteuid() != 0 || b.owner != 0 { // root itself is not bound by modes
			b.refused(palyra.ReasonPermission, "write", args{"path": "readonly", "content": "y"})
		}
		b.shared.cfg.MaxFile = 50
		b.refused(palyra.ReasonFileTooLarge, "write", args{"path": "big", "content": "y"})
		b.refused(palyra.ReasonFileTooLarge, "write", args{"path": "f", "content": strings.Repeat("y", 51)})
		if d := cmp.Diff(before, tree(b.T, b.dir)) + cmp.Diff(outside, tree(b.T, b.out)); d != "" {
			b.Errorf("something changed: %s", d)
		}
	})
}

func TestWritePlan(t *testing.T) {
	each(t, func(b *box) {
		b.put("src/f", "one\ntwo\nthree", 0o640)
		b.ok(os.Link(b.path("src/f"), b.path("twin")))
		a := args{"path": "src/f", "content": "one\n2\nthree"}
		p, err := b.plan("write", a)
		b.ok(err)
		want := palyra.Input{Path: "src/f", Digest: palyra.SumBytes([]byte("one\ntwo\nthree")), Mode: 0o640}
		if !slices.Equal(p.Writes, []string{"src/f"}) || len(p.Inputs) != 1 || p.Inputs[0] != want || len(p.Reads) != 0 {
			b.Errorf("%+v", p)
		}
		diff := "--- a/src/f\n+++ b/src/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\\ No newline at end of file\n"
		if p.Detail.Diff != diff || p.Detail.Summary != "overwrite src/f, 11 bytes (+1 -1 lines)" {
			b.Errorf("diff %q\nsummary %q", p.Detail.Diff, p.Detail.Summary)
		}
		if notes := strings.Join(p.Detail.Notes, "; "); !strings.Contains(notes, "overwrites src/f") || !strings.Contains(notes, "2 names") {
			b.Errorf("notes %q", notes)
		}
		again, err := b.plan("write", a)
		b.ok(err)
		one, _ := p.Digest()
		if two, _ := again.Digest(); one != two {
			b.Error("one world gave two digests")
		}
		b.put("src/f", "one\ntwo\nthree ", 0o640)
		third, err := b.plan("write", a)
		b.ok(err)
		if three, _ := third.Digest(); one == three {
			b.Error("another base gave the same digest")
		}
		p, err = b.plan("write", args{"path": "a/b/c\n+++ x", "content": "", "make_dirs": true})
		b.ok(err)
		if p.Inputs[0].Digest != "" || strings.Contains(p.Detail.Diff, "\n+++ x") || !slices.Contains(p.Detail.Notes, "makes the directory a") {
			b.Errorf("%+v", p)
		}
		if _, err := os.Lstat(b.path("a")); err == nil {
			b.Error("planning made a directory")
		}
	})
}

// What goes may be too large to be shown, or no text: what comes is shown.
func TestWritePlanOverWhatCannotBeShown(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("bin", "a\x00", 0o644)
	b.put("big", strings.Repeat("line\n", maxDiffLines), 0o644)
	for _, name := range []string{"bin", "big"} {
		p, err := b.plan("write", args{"path": name, "content": "text\n"})
		b.ok(err)
		if !strings.Contains(p.Detail.Diff, "\n+text\n") || !strings.Contains(strings.Join(p.Detail.Notes, ";"), string(p.Inputs[0].Digest)) ||
			p.Unshown {
			b.Errorf("%s: %q %q", name, p.Detail.Diff, p.Detail.Notes)
		}
	}
}

// The base is checked again when the call runs: a file that changed after the
// plan was made, however briefly before the rename, stays as it is.
func TestWriteKeepsWhatChangedMeanwhile(t *testing.T) {
	meddle := map[string]func(b *box){
		"content": func(b *box) { b.ok(os.WriteFile(b.path("d/f"), []byte("mine"), 0o644)) },
		"mode":    func(b *box) { b.ok(os.Chmod(b.path("d/f"), 0o600)) },
		"removed": func(b *box) { b.ok(os.Remove(b.path("d/f"))) },
		"replaced": func(b *box) {
			b.ok(os.WriteFile(b.path("d/n"), []byte("mine"), 0o644), os.Rename(b.path("d/n"), b.path("d/f")))
		},
		"link": func(b *box) {
			b.ok(os.Remove(b.path("d/f")), os.Symlink(filepath.Join(b.out, "secret"), b.path("d/f")))
		},
		"fifo":    func(b *box) { b.ok(os.Remove(b.path("d/f")), syscall.Mkfifo(b.path("d/f"), 0o644)) },
		"gone":    func(b *box) { b.ok(os.RemoveAll(b.path("d"))) },
		"moved":   func(b *box) { b.ok(os.Rename(b.path("d"), b.path("e"))) },
		"another": func(b *box) { b.ok(os.Rename(b.path("d"), b.path("e"))); b.mkdir("d") },
		"linked":  func(b *box) { b.ok(os.Rename(b.path("d"), b.path("e")), os.Symlink(b.out, b.path("d"))) },
	}
	for name, f := range meddle {
		for _, step := range []string{"planned", "staged", "placed"} {
			if step == "placed" && name != "moved" && name != "linked" && name != "another" {
				continue // after the rename the file is ours; only its directory can still be wrong
			}
			for _, d := range []disk{{}, {noExchange: true, noReplaceFlag: true}} {
				t.Run(fmt.Sprint(name, " ", step, " ", d.noExchange), func(t *testing.T) {
					each(t, func(b *box) { meddled(b, f, step, d) })
				})
			}
		}
	}
}

func meddled(b *box, f func(*box), step string, d disk) {
	b.put("d/f", "ours", 0o644)
	b.shared.disk = d
	p, err := b.plan("write", args{"path": "d/f", "content": "new"})
	b.ok(err)
	outside := tree(b.T, b.out)
	var want map[string]string
	act := func(at string) {
		if at == step {
			f(b)
			want = withoutTemps(tree(b.T, b.dir))
			if at == "placed" { // the directory has the new content at this moment; it must go back
				want["e/f"] = strings.Replace(want["e/f"], "new", "ours", 1)
			}
		}
	}
	b.shared.at = act
	act("planned")
	_, err = b.runPlan(b.Context(), p)
	if e := palyra.AsError(err); err == nil || e.Code == palyra.Internal {
		b.Fatalf("%v: %v", err, e.Cause)
	}
	if d := cmp.Diff(want, tree(b.T, b.dir)) + cmp.Diff(outside, tree(b.T, b.out)); d != "" {
		b.Errorf("left otherwise than others left it (%v): %s", err, d)
	}
}

func withoutTemps(m map[string]string) map[string]string {
	for p := range m {
		if strings.HasPrefix(filepath.Base(p), ".palyra-") {
			delete(m, p)
		}
	}
	return m
}

// A file that appears where one is to be created is not overwritten.
func TestCreateNeverOverwrites(t *testing.T) {
	for _, d := range []disk{{}, {noReplaceFlag: true}} {
		each(t, func(b *box) {
			b.shared.disk = d
			b.shared.at = func(step string) {
				if step == "staged" {
					b.put("a/f", "theirs", 0o644)
				}
			}
			p, err := b.plan("write", args{"path": "a/f", "content": "ours", "make_dirs": true})
			b.ok(err)
			if _, err := b.runPlan(b.Context(), p); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
				b.Errorf("%v", err)
			}
			if b.get("a/f") != "theirs" || len(tree(b.T, b.dir)) != 3 {
				b.Errorf("%v", tree(b.T, b.dir))
			}
		})
	}
}

func TestFailedWriteRemovesDirectoriesItMade(t *testing.T) {
	each(t, func(b *box) {
		ctx, cancel := context.WithCancel(b.Context())
		p, err := b.plan("write", args{"path": "a/b/c/f", "content": "x", "make_dirs": true})
		b.ok(err)
		release, err := b.shared.turn.take(ctx, uint64(devOf(b)))
		b.ok(err)
		done := make(chan error, 1)
		go func() {
			_, err := b.runPlan(ctx, p)
			done <- err
		}()
		cancel() // it waits for its turn, which does not come
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
		release()
		if got := tree(b.T, b.dir); len(got) != 1 {
			b.Errorf("left behind: %v", got)
		}
	})
}

func devOf(b *box) uint64 {
	_, st := b.stat(".")
	return uint64(st.Dev)
}

// Of many writers with one base exactly one gets through.
func TestConcurrentWriters(t *testing.T) {
	each(t, func(b *box) {
		b.put("f", "base", 0o644)
		const n = 24
		plans := make([]palyra.Plan, n)
		for i := range plans {
			var err error
			plans[i], err = b.plan("write", args{"path": "f", "content": fmt.Sprintf("writer %d", i)})
			b.ok(err)
		}
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range plans {
			wg.Go(func() { _, errs[i] = b.runPlan(b.Context(), plans[i]) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won >= 0:
				b.Errorf("both %d and %d were written", won, i)
			case err == nil:
				won = i
			case palyra.AsError(err).Reason != palyra.ReasonPlanChanged:
				b.Errorf("writer %d: %v", i, err)
			}
		}
		if won < 0 || b.get("f") != fmt.Sprintf("writer %d", won) || len(tree(b.T, b.dir)) != 2 {
			b.Errorf("writer %d won; %v", won, tree(b.T, b.dir))
		}
	})
}

func TestWriteKeepsOwnerAndGroupOrRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("needs several users; the run as root does this")
		return
	}
	mine := newBox(t, 0)
	mine.put("f", "x", 0o664)
	mine.ok(os.Chown(mine.path("f"), 1000, 1001))
	mine.must("write", args{"path": "f", "content": "y"})
	if _, st := mine.stat("f"); st.Uid != 1000 || st.Gid != 1001 {
		t.Errorf("uid %d gid %d", st.Uid, st.Gid)
	}
	theirs := newBox(t, nobody)
	theirs.put("f", "x", 0o666)
	theirs.ok(os.Chown(theirs.path("f"), 1000, 1001))
	theirs.refused(palyra.ReasonPermission, "write", args{"path": "f", "content": "y"})
	if theirs.get("f") != "x" || len(tree(t, theirs.dir)) != 2 {
		t.Errorf("%v", tree(t, theirs.dir))
	}
}
