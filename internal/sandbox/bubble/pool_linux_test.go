package bubble

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/template"
)

// warmBackend has a pool of n.
func warmBackend(t testing.TB, n int) *Backend {
	t.Helper()
	c := configOf(t)
	c.Warm = n
	return openBackend(t, c)
}

// kept are the cells that wait for jobs like j.
func (b *Backend) kept(j sandbox.Job) []*keeper {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if s := b.pool.find(b.want(j).key); s != nil {
		return append([]*keeper{}, s.idle...)
	}
	return nil
}

// warmed runs a job and waits until n wait for more like it.
func warmed(t testing.TB, b *Backend, s *site, n int) []*keeper {
	t.Helper()
	runJob(t, b, s.trueJob())
	j := s.trueJob()
	defer j.CloseFiles()
	eventually(t, fmt.Sprint(n, " warm cells"), func() bool { return len(b.kept(j)) == n })
	return b.kept(j)
}

// TestBackendWarmCells: a want is warm after its first use; the youngest cell that
// waits is used, once, and replaced.
func TestBackendWarmCells(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := warmBackend(t, 2)
		s := newSite(t, who)
		s.repository()
		if b.pool.idle() != 0 {
			t.Error("cells wait before anything was asked for")
		}
		two := warmed(t, b, s, 2)
		p, err := b.Start(t.Context(), s.job("/bin/sh", "-c", "exit 6"))
		if err != nil {
			t.Fatal(err)
		}
		if p.(*cells.Process).Pid() != two[1].Body.Pid() {
			t.Error("not the youngest cell that waited")
		}
		if x := waitFor(t, p); x.Code != 6 {
			t.Errorf("%+v", x)
		}
		eventually(t, "the pool is full", func() bool { return b.pool.idle() == 2 })
		j := s.trueJob()
		defer j.CloseFiles()
		for _, k := range b.kept(j) {
			if k == two[1] {
				t.Error("a cell that has served is kept")
			}
		}
	})
}

// TestBackendStale: a warm cell is of no use when what it was built for is not
// there any more; the job runs in another one, sealed as things are now.
func TestBackendStale(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, s *site, k *keeper)
		script string
		want   string
	}{
		"a repository was made": {
			func(_ *testing.T, s *site, _ *keeper) { s.repository() },
			"touch .git/hooks/x 2>/dev/null || echo sealed", "sealed",
		},
		"a sealed file was replaced": {
			func(t *testing.T, s *site, _ *keeper) {
				s.file("new", "new")
				if err := os.Rename(s.workspace+"/new", s.workspace+"/.envrc"); err != nil {
					t.Fatal(err)
				}
			},
			"cat .envrc; (echo x > .envrc) 2>/dev/null || echo sealed", "newsealed",
		},
		"the workspace is another directory": {
			func(t *testing.T, s *site, _ *keeper) {
				if err := os.Rename(s.workspace, s.workspace+"-old"); err != nil {
					t.Fatal(err)
				}
				s.dir("")
				s.file("which", "the new one")
			},
			"cat which", "the new one",
		},
		"the cell was killed": {
			func(t *testing.T, _ *site, k *keeper) {
				if err := unix.Kill(k.Body.Pid(), unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the cell is gone", k.Dead)
			},
			"echo fine", "fine",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := warmBackend(t, 1)
			s := newSite(t, celltest.Residents()[0])
			s.file(".envrc", "old")
			k := warmed(t, b, s, 1)[0]
			was := k.Body.Pid()
			c.change(t, s, k)
			p, err := b.Start(t.Context(), s.job("/bin/sh", "-c", c.script))
			if err != nil {
				t.Fatal(err)
			}
			if p.(*cells.Process).Pid() == was {
				t.Error("the stale cell was used")
			}
			if x := waitFor(t, p); s.printed() != c.want || x.Quarantined != nil {
				t.Errorf("%q %+v", s.printed(), x)
			}
		})
	}
}

// TestBackendUnsealedChanges: what is not sealed may change as it likes; the cell
// stays of use.
func TestBackendUnsealedChanges(t *testing.T) {
	b := warmBackend(t, 1)
	s := newSite(t, celltest.Residents()[0])
	s.repository()
	k := warmed(t, b, s, 1)[0]
	s.dir("new/deep")
	s.file("new/deep/file", "x")
	s.file(".git/index", "x")
	p, err := b.Start(t.Context(), s.job("/bin/cat", "new/deep/file"))
	if err != nil {
		t.Fatal(err)
	}
	if p.(*cells.Process).Pid() != k.Body.Pid() {
		t.Error("the warm cell was not used")
	}
	waitFor(t, p)
	if s.printed() != "x" {
		t.Error(s.printed())
	}
}

// TestBackendNoMixing: whatever decides how a room looks decides which cells serve.
func TestBackendNoMixing(t *testing.T) {
	b := &Backend{config: Config{Tmp: 1}}
	base := sandbox.Job{UID: 1, GID: 1, Workspace: "/w", Seals: []string{"a", "b"}}
	seen := map[string]string{b.want(base).key: "the base"}
	for name, change := range map[string]func(*sandbox.Job){
		"uid":         func(j *sandbox.Job) { j.UID = 2 },
		"gid":         func(j *sandbox.Job) { j.GID = 2 },
		"workspace":   func(j *sandbox.Job) { j.Workspace = "/v" },
		"mount":       func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/a", Target: "/b"}} },
		"target":      func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/a", Target: "/c"}} },
		"writable":    func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/a", Target: "/b", Writable: true}} },
		"file":        func(j *sandbox.Job) { j.Files = []palyra.RoomFile{{Target: "/a", Text: "b"}} },
		"text":        func(j *sandbox.Job) { j.Files = []palyra.RoomFile{{Target: "/a", Text: "c"}} },
		"fewer seals": func(j *sandbox.Job) { j.Seals = []string{"a"} },
		"one seal":    func(j *sandbox.Job) { j.Seals = []string{"a,b"} },
		"door":        func(j *sandbox.Job) { j.Doors = doors(1) },
		"udp":         func(j *sandbox.Job) { j.Doors = []cell.Listener{{UDP: true, Addr: doors(1)[0].Addr}} },
		"unix":        func(j *sandbox.Job) { j.Unix = true },
	} {
		j := base
		change(&j)
		key := b.want(j).key
		if other, ok := seen[key]; ok {
			t.Errorf("%s is served like %s", name, other)
		}
		seen[key] = name
	}
	again := base
	again.Call, again.Argv, again.Env, again.Limits = "x", []string{"y"}, []string{"A=B"}, palyra.Limits{CPUMS: 5}
	if b.want(again).key != b.want(base).key {
		t.Error("what does not decide how a room looks counts")
	}
}

// TestBackendRecentWantsWin: there are never more than was said, and who was used
// last has them.
func TestBackendRecentWantsWin(t *testing.T) {
	b := warmBackend(t, 2)
	var sites []*site
	for range 3 {
		s := newSite(t, celltest.Residents()[0])
		sites = append(sites, s)
		warmed(t, b, s, 2)
		if n := b.pool.idle(); n > 2 {
			t.Errorf("%d cells wait", n)
		}
	}
	for _, s := range sites[:2] {
		j := s.trueJob()
		j.CloseFiles()
		if n := len(b.kept(j)); n != 0 {
			t.Errorf("%d cells for what was used before", n)
		}
	}
}

// TestBackendWarmBytes: memory bounds the pool as well.
func TestBackendWarmBytes(t *testing.T) {
	c := configOf(t)
	c.Warm, c.WarmBytes = 4, cellGuess+1
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	k := warmed(t, b, s, 1)[0]
	if k.bytes < 128<<10 || k.bytes > 256<<20 {
		t.Errorf("a cell takes %d bytes", k.bytes)
	}
	if w, _ := b.pool.next(time.Now()); w != nil {
		t.Error("another one would be built")
	}
}

// TestBackendExpire: who waited for a minute ends, and what nobody used for a minute
// is not filled again.
func TestBackendExpire(t *testing.T) {
	b := warmBackend(t, 1)
	s := newSite(t, celltest.Residents()[0])
	k := warmed(t, b, s, 1)[0]
	first := k.Body.Pid()
	bwrap := parent(t, parent(t, first))
	b.pool.expire(k.since.Add(idleFor - time.Second))
	if b.pool.idle() != 1 {
		t.Error("ended too early")
	}
	b.pool.expire(time.Now().Add(idleFor))
	if b.pool.idle() != 0 || len(b.pool.shelves) != 0 {
		t.Error("still there")
	}
	eventually(t, "the room ends", func() bool { return !lives(first) })
	b.templates.Expire(time.Now())
	if !lives(bwrap) {
		t.Error("the template ended too early")
	}
	eventually(t, "the template ends", func() bool { b.templates.Expire(time.Now().Add(template.Idle)); return !lives(bwrap) })
}

// TestBackendFailingWants: what cannot be built ahead is left alone for a while, and
// no call waits for it.
func TestBackendFailingWants(t *testing.T) {
	b := warmBackend(t, 1)
	s := newSite(t, celltest.Residents()[0])
	k := warmed(t, b, s, 1)[0]
	if err := os.Rename(s.workspace, s.workspace+"-away"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Start(t.Context(), s.job("/bin/true"))
	if err == nil {
		t.Error("started without a workspace")
	}
	b.pool.used(k.want, nil)
	eventually(t, "the want rests, or is forgotten", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return len(b.pool.shelves) == 0 || b.pool.shelves[0].rest.After(time.Now())
	})
	if err := os.Rename(s.workspace+"-away", s.workspace); err != nil {
		t.Fatal(err)
	}
	runJob(t, b, s.trueJob())
}

// TestBackendManyAtOnce: as many as there are come to their end, warm or cold.
func TestBackendManyAtOnce(t *testing.T) {
	b := warmBackend(t, 2)
	site := newSite(t, celltest.Residents()[0])
	site.repository()
	warmed(t, b, site, 2)
	errs := make(chan error, 12)
	for i := range cap(errs) {
		own := *site
		j := own.job("/bin/sh", "-c", fmt.Sprintf("echo run %d; sleep 0.05; exit %d", i, i))
		go func() {
			p, err := b.Start(t.Context(), j)
			if err != nil {
				errs <- err
				return
			}
			x, err := p.Wait()
			if x.Code != i || !strings.Contains(own.printed(), fmt.Sprint("run ", i)) {
				err = errors.Join(err, fmt.Errorf("%d: %+v", i, x))
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestBackendWorkspaceGone: no cell is kept ready for a workspace that was removed, and the log is
// not filled with that.
func TestBackendWorkspaceGone(t *testing.T) {
	c := configOf(t)
	c.Warm = 1
	var log strings.Builder
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	runJob(t, b, s.trueJob())
	j := s.trueJob()
	defer j.CloseFiles()
	w := b.want(j)
	if err := os.RemoveAll(s.workspace); err != nil {
		t.Fatal(err)
	}
	b.pool.add(w)
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if f := b.pool.find(w.key); f != nil && !f.used.IsZero() || strings.Contains(log.String(), "no cell could be kept") {
		t.Errorf("it is still wanted; the log: %s", log.String())
	}
}
