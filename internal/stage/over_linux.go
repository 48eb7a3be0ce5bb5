package stage

import (
	"errors"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/stage/meter"
)

// Over looks at how much a run has on its stage while it goes on: a LimitError says
// that it is more than is kept, or that all runs have too much and this one the most of them. What cannot be opened, or
// is gone again, is not looked into.
func (g *Stage) Over() error {
	m := &meter.Meter{Entries: g.of.limits.Entries, Most: g.of.limits.Bytes} // one run's, whatever stages it has
	if g.beside != nil {
		if err := g.beside.over(m); err != nil {
			return err
		}
	}
	return g.over(m)
}

// over is Over for one stage: m goes on counting.
func (g *Stage) over(m *meter.Meter) error {
	g.looking.Lock()
	defer g.looking.Unlock()
	if g.ended.Load() {
		return nil
	}
	return g.asOwner(func() error {
		upper, err := g.open(Upper)
		if err != nil {
			return nil
		}
		defer func() { _ = unix.Close(upper) }()
		names, bytes := m.Names, m.Bytes
		m.Ended = &g.ended
		err = m.Count(upper)
		if over := (*meter.OverError)(nil); errors.As(err, &over) {
			err = &LimitError{over.What, over.Of}
		}
		if g.of.sizes.Report(g.name, m.Bytes-bytes+int64(m.Names-names)*nameBytes) && err == nil {
			return tooMuchInAll(g.of.limits.All)
		}
		return err
	})
}

// lookNoMore ends a look that is under way: the run is over, and its stage may get another name.
func (g *Stage) lookNoMore() {
	g.ended.Store(true)
	g.looking.Lock()
	defer g.looking.Unlock()
}

// listNames lists a directory with at most so many names, sorted: equal stages give equal steps.
func listNames(fd, most int) ([]string, error) {
	names, err := beneath.NamesOf(fd, most)
	if many := (*beneath.ManyError)(nil); errors.As(err, &many) {
		err = tooMany("%d names in one directory", many.Most)
	}
	return names, err
}
