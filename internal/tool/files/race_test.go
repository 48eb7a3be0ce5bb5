//go:build linux

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"palyra"
)

// While somebody keeps swapping a directory for a link to the outside and back,
// writes, reads and listings go on. Nothing outside is ever touched or seen, and
// nothing temporary stays anywhere.
func TestSwappingParents(t *testing.T) {
	each(t, func(b *box) {
		b.put("d/f", "inside", 0o644)
		b.link(b.out, "l")
		b.ok(os.WriteFile(filepath.Join(b.out, "f"), []byte("TOP SECRET"), 0o666), os.Chmod(b.out, 0o777))
		outside := tree(b.T, b.out)
		stop := make(chan struct{})
		var swaps, done, refused atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if exchange(unix.AT_FDCWD, b.path("d"), b.path("l")) == nil {
					swaps.Add(1)
				}
				for range int((swaps.Load()+1)%2) * 200 { // the directory is there for longer than the link
					runtime.Gosched()
				}
			}
		})
		var workers sync.WaitGroup
		for w := range 3 {
			workers.Go(func() {
				for i := range 150 {
					name, a := "write", args{"path": fmt.Sprintf("d/w%d", w), "content": fmt.Sprint(i), "make_dirs": i%2 == 0}
					switch i % 5 {
					case 3:
						name, a = "read", args{"path": "d/f"}
					case 4:
						name, a = "search", args{"path": ".", "pattern": "SECRET"}
					}
					p, err := b.plan(name, a)
					var got map[string]any
					if err == nil {
						got, err = b.runPlan(b.Context(), p)
					}
					if err != nil {
						refused.Add(1)
						if e := palyra.AsError(err); e.Code == palyra.Internal {
							b.Errorf("%s: %v: %v", name, e, e.Cause)
						}
						continue
					}
					if name == "write" {
						done.Add(1)
					}
					if name == "read" && got["content"] != "inside" || name == "search" && len(got["matches"].([]any)) > 0 {
						b.Errorf("%s saw the outside: %v", name, got)
					}
				}
			})
		}
		workers.Wait()
		close(stop)
		wg.Wait()
		if d := cmp.Diff(outside, tree(b.T, b.out)); d != "" {
			b.Errorf("the outside was touched: %s", d)
		}
		if all := tree(b.T, b.dir); len(withoutTemps(all)) != len(tree(b.T, b.dir)) {
			b.Errorf("temporary files stay: %v", tree(b.T, b.dir))
		}
		b.Logf("%d swaps, %d writes done, %d calls refused", swaps.Load(), done.Load(), refused.Load())
		if swaps.Load() == 0 || done.Load() == 0 {
			b.Error("the race did not happen")
		}
	})
}

// The same with the file itself swapped for a link.
func TestSwappingTheFile(t *testing.T) {
	each(t, func(b *box) {
		b.put("f", "0", 0o644)
		outside := tree(b.T, b.out)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Symlink(filepath.Join(b.out, "secret"), b.path("l"))
				_ = os.Rename(b.path("l"), b.path("f"))
				_ = os.WriteFile(b.path("n"), []byte("theirs"), 0o644)
				if os.Geteuid() == 0 {
					_ = os.Chown(b.path("n"), b.owner, b.owner)
				}
				_ = os.Rename(b.path("n"), b.path("f"))
			}
		})
		for i := range 300 {
			p, err := b.plan("write", args{"path": "f", "content": fmt.Sprint(i)})
			if err == nil {
				_, err = b.runPlan(b.Context(), p)
			}
			if e := palyra.AsError(err); err != nil && e.Code == palyra.Internal {
				b.Errorf("%v: %v", e, e.Cause)
			}
		}
		close(stop)
		wg.Wait()
		if d := cmp.Diff(outside, tree(b.T, b.out)); d != "" {
			b.Errorf("the outside was touched: %s", d)
		}
		if all := tree(b.T, b.dir); len(withoutTemps(all)) != len(tree(b.T, b.dir)) {
			b.Errorf("temporary files stay: %v", tree(b.T, b.dir))
		}
	})
}
