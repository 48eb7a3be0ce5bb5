package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/preimage"
	work "palyra/internal/stage/steps"
)

const backScript = "rm -rf d; echo x > d; rm -r e; mkdir e; echo y > e/y; echo z >> f; mkdir -p n/m; echo n > n/m/o; chmod 500 n/m; " +
	"chmod 700 k; ln -s f l; echo z >> zz"

func (b *bench) backTree() {
	b.write("d/1/2", "old")
	b.write("e/old", "old")
	b.write("f", "old\n")
	b.write("k/x", "old")
	b.write("zz", "old\n")
}

// A daemon that is killed while it takes back what it had put into a workspace leaves word of that, and the next
// one goes on with it: at every step.
func TestKilledWhileTakingBack(t *testing.T) {
	for where, put := range map[string]func(*bench){"one file system": (*bench).near, "two file systems": (*bench).elsewhere} {
		t.Run(where, func(t *testing.T) {
			for at := 0; ; at++ {
				b := newBench(t)
				put(b)
				b.backTree()
				before, p := tree(t, b.ws), b.past()
				g := b.stage()
				b.run(g, backScript)
				check(t, g.Remember(p, "run"))
				n := g.untilBack(t, at)
				b.all.live = map[string]bool{} // of a daemon that is no more
				check(t, b.all.Recover(t.Context()))
				if after := tree(t, b.ws); fmt.Sprint(before) != fmt.Sprint(after) {
					t.Fatalf("killed after %d of %d steps back: %s", at, n, differing(before, after))
				}
				if left, _ := os.ReadDir(b.all.path); len(left) > 0 || len(names(t, p)) > 0 {
					t.Errorf("killed after %d steps back: %v, %v", at, left, names(t, p))
				}
				if at >= n {
					return
				}
			}
		})
	}
}

// untilBack keeps all but the last step, and takes so many of them back.
func (g *Stage) untilBack(t *testing.T, at int) (done int) {
	t.Helper()
	k, steps := g.begun(t)
	defer k.close()
	done = len(steps) - 1
	check(t, g.asOwner(func() error { return k.Do(steps[:done], 0, false) }))
	k.Left = []string{"zz"}
	text := fmt.Sprintf(`{"done":%d,"left":["zz"],"put":%s}`, done, jsonOf(t, k.Puts))
	check(t, g.writeWhole(backName, []byte(text)))
	check(t, g.asOwner(func() error {
		for i := done - 1; i >= max(0, done-at); i-- {
			if err := k.Undo(&steps[i], i); err != nil {
				return err
			}
		}
		return nil
	}))
	return done
}

// What cannot be taken back, because somebody is at work there by then, stays and can be undone: its
// pre-images are remembered, and nothing else is said to have been changed.
func TestWhatStaysIsRemembered(t *testing.T) {
	for _, far := range []bool{false, true} {
		t.Run(fmt.Sprint(far), func(t *testing.T) {
			b := newBench(t)
			if far {
				b.elsewhere()
			}
			b.backTree()
			p := b.past()
			g := b.stage()
			b.run(g, backScript)
			check(t, g.Remember(p, "run"))
			k, steps := g.begun(t)
			r := &reader{Stage: g, ctx: t.Context(), since: k.Since}
			done := len(steps) - 1
			check(t, g.writeManifest(k.manifest(&reader{steps: steps, out: Settled{Changes: g.changesFor(t)}})))
			check(t, g.asOwner(func() error { return k.Do(steps[:done], 0, false) }))
			b.write("d", "theirs")
			b.write("e/theirs", "theirs")
			k.Left = []string{"zz"}
			check(t, k.takeBack(steps, work.ErrTaken))
			k.reportSteps(&r.out, steps, nil)
			k.close()
			g.files = []file{{"f", identIn(t, g, "f")}}
			aside := t.TempDir()
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(aside, "run/run-000001"), 0o700) }) // for a user who removes it
			if n, _, err := g.SetAside(aside, "run", 0); n != 1 || err != nil {               // what the run made of it is not lost either
				t.Errorf("%d set aside, %v", n, err)
			}
			g.Drop()
			got := tree(t, b.ws)
			if !r.out.Remembered || r.out.Lost == "" || len(r.out.Conflicts) > 0 || got["/d"] != "-rw-r--r-- theirs" ||
				got["/e/theirs"] == "" || got["/e/y"] != "" || got["/f"] != "-rw-r--r-- old\n" || got["/n"] != "" {
				t.Errorf("%+v: %v", r.out, got)
			}
			m, err := p.Read("run")
			check(t, err)
			var said []string
			for _, e := range m.Changes {
				said = append(said, fmt.Sprintf("%s %s>%s", e.Path, e.Was.Kind, e.Now.Kind))
			}
			want := "d dir>file, d/1 dir>, d/1/2 file>, e/old file>"
			if strings.Join(said, ", ") != want || m.Lost == "" || m.Paths != 4 || m.Bytes < preimage.Block {
				t.Errorf("%v, want %s; %+v", said, want, m)
			}
			if _, err := b.all.Revert(t.Context(), p, "run"); !errors.As(err, new(*DiffersError)) {
				t.Errorf("%v", err)
			}
			check(t, os.WriteFile(filepath.Join(b.ws, "d"), []byte("x\n"), 0o644))
			b.revert(p, "run", "undo")
			if got := tree(t, b.ws); got["/d/1/2"] == "" || got["/e/old"] == "" || got["/e/theirs"] == "" {
				t.Errorf("%v", got)
			}
		})
	}
}

// identIn is which file lies on a stage.
func identIn(t *testing.T, g *Stage, rel string) beneath.Ident {
	t.Helper()
	upper, err := g.open(Upper)
	check(t, err)
	defer func() { _ = unix.Close(upper) }()
	st, _, err := beneath.LookBelow(upper, rel)
	check(t, err)
	return beneath.IdentOf(st)
}
