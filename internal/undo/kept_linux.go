package undo

import (
	"context"
	"errors"
	"strings"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/stage"
)

// Kept is where what calls replaced lies, and what puts it back.
type Kept struct {
	stages *stage.Stages
	past   *stage.Past
}

// NewKept returns what is kept in past and is put back by way of stages.
func NewKept(s *stage.Stages, p *stage.Past) *Kept { return &Kept{s, p} }

func (k *Kept) names() ([]string, error) { return k.past.Names() }

func (k *Kept) forget(name string) error { return k.past.Forget(name) }

func (k *Kept) head(name string) (head, error) {
	m, err := k.past.Head(name)
	return head{m.Workspace, m.At, int64(m.Paths), m.Bytes}, err
}

// reversed is what putting an entry back changes.
func (k *Kept) reversed(name string) ([]palyra.Change, error) {
	m, err := k.past.Read(name)
	if err != nil {
		return nil, err
	}
	all := make([]stage.Change, 0, len(m.Changes))
	for _, c := range m.Changes {
		all = append(all, stage.Change{Path: string(c.Path), Was: c.Now, Now: c.Was})
	}
	return sandbox.ChangesOf(all), nil
}

// reversal is a stage on which an entry is put back.
type reversal struct {
	past  *stage.Past
	stage *stage.Stage
}

// prepare puts an entry onto a stage. A workspace that is not as it was left is a differing.
func (k *Kept) prepare(ctx context.Context, name string) (*reversal, error) {
	g, err := k.stages.Revert(ctx, k.past, name)
	if other := (*stage.DiffersError)(nil); errors.As(err, &other) {
		return nil, &differing{other.Paths, other.More}
	}
	if err != nil {
		return nil, err
	}
	return &reversal{k.past, g}, nil
}

func (r *reversal) drop() { r.stage.Drop() }

// keep makes what is on the stage the workspace's, and remembers what that replaces. Why says what somebody did in its
// way.
func (r *reversal) keep(ctx context.Context, as string) (all []palyra.Change, why string, err error) {
	if err := r.stage.Remember(r.past, as); err != nil {
		return nil, "", err
	}
	out, err := r.stage.Keep(ctx, nil, nil)
	if err == nil && len(out.Refused) > 0 {
		err = errors.New("undo: not put back: " + strings.Join(out.Refused, ", "))
	}
	why = out.Lost
	if len(out.Conflicts) > 0 {
		why = strings.Join(out.Conflicts, ", ")
	}
	return sandbox.ChangesOf(out.Changes), why, err
}

// contents reads files of an entry, before and after.
func (k *Kept) contents(ctx context.Context, name string, pick func(path string) bool, most int64, f func(content) bool) error {
	return k.past.Contents(ctx, name, func(c stage.Change) bool { return pick(c.Path) }, most, func(c stage.Content) bool {
		return f(content{c.Path, c.Was.Kind == stage.File, c.Now.Kind == stage.File, c.Before, c.After, c.Why})
	})
}
