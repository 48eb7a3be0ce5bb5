package stage

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// What all stages have together is bounded: the run with the most is told, also for what is held and
// cannot give way, over the next start, until that was settled.
func TestAllStages(t *testing.T) {
	b := newBench(t)
	check(t, b.all.Close())
	open := func() {
		t.Helper()
		all, err := Open(filepath.Join(filepath.Dir(b.ws), "stages"), Limits{All: 4 << 20}, slog.New(slog.DiscardHandler))
		check(t, err)
		t.Cleanup(func() { _ = all.Close() })
		b.all = all
		check(t, all.Recover(t.Context()))
	}
	tells := func(what string, g *Stage, want bool) {
		t.Helper()
		over := (*LimitError)(nil)
		if err := g.Over(); errors.As(err, &over) != want || want && over.Limit() != "all_stages_bytes" {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	open()
	b.holds("one", "head -c 2000000 /dev/urandom > held", nil)
	small, large := b.stage(), b.stage()
	b.run(small, "head -c 500000 /dev/urandom > small")
	b.run(large, "head -c 1000000 /dev/urandom > large")
	tells("all fit: the large one", large, false)
	tells("all fit: the small one", small, false)
	grow := func(g *Stage, name string, n int) {
		check(t, os.WriteFile(filepath.Join(g.Path(), Upper, name), make([]byte, n), 0o600))
	}
	grow(small, "small", 800_000)
	grow(large, "large", 2_000_000)
	tells("too much: the small one", small, false)
	tells("too much: the large one", large, true)
	if err := b.stage().Charge(""); !errors.As(err, new(*LimitError)) {
		t.Errorf("one more begins: %v", err)
	}
	if err := b.stage().Charge("another"); err != nil {
		t.Errorf("one of somebody who has nothing does not begin: %v", err)
	}
	e, err := large.Keep(t.Context(), nil, nil)
	check(t, err)
	large.Drop()
	if e.Kept != 1 {
		t.Errorf("what the one that was told had written is lost: %+v", e)
	}
	tells("with room again", small, false)
	small.Drop()

	open()
	g := b.stage()
	b.run(g, "head -c 2300000 /dev/urandom > more")
	tells("with what is held from before", g, true)
	if _, err := b.all.Settle(t.Context(), "one", RulingKeep, nil, nil); err != nil {
		t.Fatal(err)
	}
	tells("when that was settled", g, false)
	if st, err := os.Stat(filepath.Join(b.ws, "held")); err != nil || st.Size() != 2000000 {
		t.Errorf("%v, %v", st, err)
	}
}

// What is held is counted to its payer, by bytes and by names, also after the next start.
func TestHeldShares(t *testing.T) {
	b := newBench(t)
	path := b.all.path
	check(t, b.all.Close())
	open := func() {
		t.Helper()
		all, err := Open(path, Limits{All: 4 << 20}, slog.New(slog.DiscardHandler))
		check(t, err)
		t.Cleanup(func() { _ = all.Close() })
		b.all = all
		check(t, all.Recover(t.Context()))
	}
	hold := func(call, payer, script string) error {
		t.Helper()
		g := b.stage()
		defer g.Drop()
		check(t, g.Assign(call))
		check(t, g.Charge(payer))
		b.run(g, script)
		_, err := g.Keep(t.Context(), nil, func(Found) Ruling { return RulingHold })
		return err
	}
	const names = "i=0; while [ $i -lt 700 ]; do i=$((i+1)); : > n.$i; done"
	open()
	check(t, hold("one", "greedy", names))
	for _, again := range []string{"two", "three"} {
		for call, script := range map[string]string{again: names, again + "b": "head -c 500000 /dev/urandom > x"} {
			if err := hold(call, "greedy", script); !errors.As(err, new(*LimitError)) {
				t.Errorf("%s: more than a share is held: %v", call, err)
			}
		}
		open()
	}
	check(t, hold("other", "other", names))
}
