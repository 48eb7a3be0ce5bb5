package seal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/quarantine"
)

// bounded limits how many bytes of a workspace a quarantine keeps.
func (p *quarantiner) bounded(s *Snapshot) *quarantiner {
	p.workspace, p.most = s.workspace, s.limits.Kept
	return p
}

// known writes down which workspace a call's items come from, and finds the items that the call has already.
func (p *quarantiner) known(at *quarantineDir, dir string) error {
	at.budget = quarantine.Budget{Most: p.most}
	switch {
	case !at.own:
		at.budget.Used = quarantine.Used(dir)
	case p.most > 0: // runs beside this one can write its index
		at.budget.Used = quarantine.Measured(dir, p.most)
	}
	if p.workspace == "" || at.own {
		return nil
	}
	return quarantine.NoteWorkspace(at.fd, p.workspace)
}

// newBox makes a box for an item.
func (d *quarantineDir) newBox(item string) (box *quarantine.Box, err error) {
	err = d.as(func() error { box, err = quarantine.NewBox(d.fd, item); return err })
	return box, err
}

// take moves something into a box of its own, under the next free name: under its own name it could
// still be a repository.
func (d *quarantineDir) take(fd int, name string) (string, error) {
	for {
		item := fmt.Sprintf("%06d", d.n+1)
		box, err := d.newBox(item)
		if errors.Is(err, unix.EEXIST) {
			d.n++
			continue
		}
		if err != nil {
			return "", err
		}
		if err := box.Put(fd, name); err != nil {
			_ = box.Shut()
			_ = unix.Unlinkat(d.fd, item, unix.AT_REMOVEDIR) // an empty box does no harm
			return "", err
		}
		d.n++
		d.box = box
		return item, nil
	}
}

// descriptor is the path of an open directory, whatever lies at its former path now.
func descriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d/.", fd) }

// Trim removes the oldest calls from the quarantine in the workspace itself, until the rest is
// within the limit for a workspace. It returns the removed ones.
func (s *Snapshot) Trim(call palyra.CallID, busy func(call string) bool) (gone []string, err error) {
	if s.limits.Kept <= 0 {
		return nil, nil
	}
	t, err := s.open()
	if err != nil {
		return nil, err
	}
	defer t.close()
	fd, err := t.open(join(ownDir, quarantineName), unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("seal: quarantine: %w", err)
	}
	defer unix.Close(fd)
	err = t.asOwner(func() (err error) {
		gone, err = quarantine.Trim(descriptor(fd), string(call), busy, quarantine.Limits{Total: s.limits.Kept, Measure: true})
		return err
	})
	return gone, err
}

// store completes take: it measures the item, adds it to the index and closes the box.
func (p *quarantiner) store(at *quarantineDir, item string, e watchedPath) error {
	i := quarantine.Item{Item: item, Path: e.path, Mode: e.mode}
	box := at.box
	at.box = nil
	if at.budget.Weigh(box, &i) {
		p.stay(palyra.RemnantNotKept, i.Loss())
	}
	return errors.Join(p.write(at, i), box.Shut())
}
