package tiers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/egress/lend"
	"palyra/secrets"
)

// uses counts what became of the secrets that one run borrowed, and puts it on record.
type uses struct {
	journal  func(ctx context.Context, e palyra.Event) // nil: nobody hears
	bindings []secrets.Binding
	of       palyra.SecretUsed // who uses them
	stray    func(ctx context.Context, binding, host string)

	mu    sync.Mutex // guards the fields below
	count map[use]int64
	told  map[use]bool
}

// use is a binding at a host.
type use struct{ binding, host string }

// note takes in what became of the placeholders in one request. A stray one is told at once, and once.
func (u *uses) note(ctx context.Context, host string, got lend.Use) {
	var stray []string
	u.mu.Lock()
	if u.count == nil {
		u.count, u.told = map[use]int64{}, map[use]bool{}
	}
	for _, name := range got.Used {
		u.count[use{name, host}]++
	}
	for _, name := range got.Stray {
		if at := (use{name, host}); !u.told[at] {
			u.told[at] = true
			stray = append(stray, name)
		}
	}
	u.mu.Unlock()
	for _, name := range stray {
		u.stray(context.WithoutCancel(ctx), name, host)
	}
}

// record writes what was used, a line for each binding and host, and forgets it.
func (u *uses) record(ctx context.Context) {
	if u == nil {
		return
	}
	u.mu.Lock()
	count := u.count
	u.count = nil
	u.mu.Unlock()
	order := func(a, b use) int { return cmp.Or(cmp.Compare(a.binding, b.binding), cmp.Compare(a.host, b.host)) }
	for _, at := range slices.SortedFunc(maps.Keys(count), order) {
		e := u.of
		e.Binding, e.Host, e.Count = at.binding, at.host, count[at]
		for _, b := range u.bindings {
			if b.Name == at.binding {
				e.Scope, e.Secret = string(b.Scope), b.Secret
			}
		}
		u.journal(context.WithoutCancel(ctx), e)
	}
}

// recordUse puts the use of a secret on record.
func (t *Tiers) recordUse(ctx context.Context, e palyra.Event) {
	if s, ok := e.(palyra.SecretUsed); ok {
		if of, ok := t.lent.Load(s.Call); ok {
			of.(*lent).add(s.Binding)
		}
	}
	if _, err := t.Journal.Record(ctx, e); err != nil {
		t.Log.Error("the use of a secret is not on record", "error", err)
	}
}
