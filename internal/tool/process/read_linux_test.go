package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// at looks at a file for the run's user.
func (b *box) at(abs string) (*world, *place) {
	b.Helper()
	ref, _ := b.Resolve(b.Context(), "", 0)
	user, err := runUser(ref)
	b.ok(err)
	w := b.d.world(b.Context(), user, b.dir)
	w.cwd = b.dir
	p, err := w.walk(abs)
	b.ok(err)
	b.Cleanup(p.close)
	return w, p
}

// later is a clock for which every change is long ago.
func later() time.Time { return time.Now().Add(time.Hour) }

// A digest that is kept is used while the file is the same and never after.
func TestDigestIsKeptWhileNothingChanged(t *testing.T) {
	each(t, func(b *box) {
		b.d.now = later
		file := filepath.Join(b.out, "f")
		write := func(s string) {
			b.ok(os.WriteFile(file, []byte(s), 0o644), os.Chmod(file, 0o644), os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)))
			b.own(file)
		}
		read := func() palyra.Digest {
			w, p := b.at(file)
			p.writable = false // as for a file of the system's
			c, err := w.read(p, 100)
			b.ok(err)
			return c.digest
		}
		write("one")
		one := read()
		if _, p := b.at(file); one != palyra.SumBytes([]byte("one")) || len(b.d.digests.byKey) != 1 || read() != one {
			b.Errorf("%s, %d kept, %+v", one, len(b.d.digests.byKey), keyOf(&p.st))
		}
		// The kept one is really used: a wrong one comes back.
		for k := range b.d.digests.byKey {
			b.d.digests.put(k, content{digest: "kept"})
		}
		if read() != "kept" {
			b.Error("hashed again")
		}
		// Same size, same mtime: the ctime tells, once the kernel's clock moved on.
		_, before := b.at(file)
		for deadline := time.Now().Add(10 * time.Second); ; {
			write("two")
			if _, now := b.at(file); now.st.Ctim != before.st.Ctim {
				break
			}
			if time.Now().After(deadline) {
				b.Fatal("the ctime never changes")
			}
		}
		if got := read(); got != palyra.SumBytes([]byte("two")) {
			b.Errorf("a change was not seen: %s", got)
		}
	})
}

// A change of a moment ago may be followed by another in the same tick.
func TestFreshDigestIsNotKept(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("f", "x", 0o644)
	w, p := b.at(b.path("f"))
	p.writable = false
	if _, err := w.read(p, 100); err != nil || len(b.d.digests.byKey) != 0 {
		t.Errorf("%v, %d kept", err, len(b.d.digests.byKey))
	}
}

// What the run's user could write is hashed each time and never kept.
func TestWritableFileIsHashedEachTime(t *testing.T) {
	each(t, func(b *box) {
		b.d.now = later
		b.tools("python3")
		b.put("x.py", "1", 0o644)
		one := b.must(run("bin/python3 x.py"))
		if n := len(b.d.digests.byKey); n != 0 {
			b.Fatalf("%d kept", n)
		}
		for _, rel := range []string{"bin/python3", "x.py"} { // whatever somebody put there is not used
			_, p := b.at(b.path(rel))
			b.d.digests.put(keyOf(&p.st), content{digest: "wrong"})
		}
		if two := b.must(run("bin/python3 x.py")); two.Executable != one.Executable || two.Inputs[0] != one.Inputs[0] {
			b.Errorf("%+v, %+v", two.Executable, two.Inputs)
		}
	})
}

func TestSystemProgramIsKept(t *testing.T) {
	each(t, func(b *box) {
		b.d.now = later
		one := b.must(run("touch x"))
		if len(b.d.digests.byKey) != 1 {
			b.Fatalf("%d kept", len(b.d.digests.byKey))
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if p, err := b.planIn(context.Background(), run("touch x")); err != nil || p.Executable != one.Executable {
					b.Errorf("%+v, %v", p.Executable, err)
				}
			})
		}
		wg.Wait()
	})
}

// A file that changes between being found and being read, or while it is read, is
// not bound.
func TestUnsteadyFile(t *testing.T) {
	b := newBox(t, os.Geteuid())
	swap := map[string]func(){
		"replaced": func() { b.put("g", "y", 0o644); b.ok(os.Rename(b.path("g"), b.path("f"))) },
		"written":  func() { b.put("f", "longer", 0o644) },
		"fifo":     func() { b.ok(os.Remove(b.path("f")), unix.Mkfifo(b.path("f"), 0o644)) },
		"chmod":    func() { b.ok(os.Chmod(b.path("f"), 0o600)) },
	}
	for name, change := range swap {
		_ = os.Remove(b.path("f"))
		b.put("f", "x", 0o644)
		w, p := b.at(b.path("f"))
		change()
		_, err := w.read(p, 100)
		wants(t, name, err, palyra.ReasonPlanChanged, "again")
	}
	_ = os.Remove(b.path("f"))
	b.put("f", "x", 0o644)
	w, p := b.at(b.path("f"))
	b.ok(os.Remove(b.path("f")))
	if _, err := w.read(p, 100); !errors.Is(err, unix.ENOENT) {
		t.Errorf("vanished: %v", err)
	}
	b.ok(os.Symlink("x", b.path("f")))
	if _, err := w.read(p, 100); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
}

// Hashing ends with its context.
func TestHashingEndsWithItsContext(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("f", "", 0o755)
	b.ok(os.Truncate(b.path("f"), 1<<30))
	w, p := b.at(b.path("f"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.ctx = ctx
	if _, err := w.read(p, maxExecutable); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Only so many hash at a time, and who waits can leave.
func TestHashingTakesTurns(t *testing.T) {
	if got := driver(t, Config{}).hashing; cap(got) != 2 {
		t.Errorf("%d may hash at a time", cap(got))
	}
	b := newBox(t, os.Geteuid())
	b.put("f", "x", 0o755)
	synctest.Test(t, func(t *testing.T) {
		b.d.hashing = make(chan struct{}, maxHashing)
		for range maxHashing {
			b.d.hashing <- struct{}{}
		}
		w, p := b.at(b.path("f"))
		ctx, cancel := context.WithCancel(t.Context())
		read := func(ctx context.Context) chan error {
			mine, done := *w, make(chan error, 1)
			mine.ctx, mine.hashed = ctx, new(int64) // plans of their own
			go func() {
				_, err := mine.read(p, 100)
				done <- err
			}()
			return done
		}
		leaves, stays := read(ctx), read(t.Context())
		synctest.Wait()
		if len(leaves)+len(stays) != 0 {
			t.Error("hashed out of turn")
		}
		cancel()
		if err := <-leaves; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-b.d.hashing
		if err := <-stays; err != nil || len(b.d.hashing) != maxHashing-1 { // the turn is given back
			t.Errorf("%v, %d hash", err, len(b.d.hashing))
		}
	})
}

// One plan cannot have the same large file hashed over and over.
func TestHashingHasABudget(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("f", "x", 0o644)
	w, p := b.at(b.path("f"))
	*w.hashed = maxHashed - 1
	if _, err := w.read(p, 100); err != nil {
		t.Error(err)
	}
	_, err := w.read(p, 100)
	wants(t, "over", err, palyra.ReasonFileTooLarge, "fewer")
}

func BenchmarkPlan(b *testing.B) {
	for name, keep := range map[string]bool{"kept": true, "hashed": false} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			d := driver(b, Config{})
			for b.Loop() {
				if !keep {
					d.digests = newCache[fileKey, content](1)
				}
				p := planOf(`{"command":"touch","args":["x"]}`)
				p.Workspace = palyra.WorkspaceRef{Path: dir, Owner: int64(os.Geteuid())}
				if err := d.Plan(b.Context(), &palyra.Call{}, &p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
