package seal

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/quarantine"
)

// bounded lets a pen keep so much of a workspace's.
func (p *pen) bounded(s *Snapshot) *pen {
	p.workspace, p.most = s.workspace, s.limits.Kept
	return p
}

// known writes down which workspace a call's items come from, and finds what is there
// of the call already.
func (p *pen) known(dir int) error {
	p.used = quarantine.Used(filepath.Join(p.path, p.call))
	if p.workspace == "" {
		return nil
	}
	fd, err := unix.Openat(dir, quarantine.WorkspaceName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(p.workspace))
	return errors.Join(err, unix.Close(fd))
}

// boxed moves something into a box of its own, under the next free name.
func (d *corner) boxed(fd int, name string) (string, error) {
	for {
		item := fmt.Sprintf("%06d", d.n+1)
		box, err := quarantine.NewBox(d.fd, item)
		if errors.Is(err, unix.EEXIST) {
			d.n++
			continue
		}
		if err != nil {
			return "", err
		}
		if err := box.Put(fd, name); err != nil {
			_ = box.Shut()
			_ = unix.Unlinkat(d.fd, item, unix.AT_REMOVEDIR) // an empty one is in nobody's way
			return "", err
		}
		d.n++
		d.box = box
		return item, nil
	}
}

// store ends what take began: the item is weighed, put into the index and shut.
func (p *pen) store(at *corner, item string, e entry) error {
	i := quarantine.Item{Item: item, Path: e.path, Mode: e.mode}
	if at.box != nil {
		p.weigh(at.box, &i)
	}
	return errors.Join(p.write(at, i), at.shut(item, e))
}

// weigh finds out what an item takes, and removes one that is more than is kept: its
// size and digest stay.
func (p *pen) weigh(box *quarantine.Box, i *quarantine.Item) {
	bytes, over := box.Measure(p.most - p.used)
	i.Bytes = bytes
	if p.most > 0 && over {
		i.Digest, i.Hashed = box.Digest()
		i.Removed = box.Empty() == nil // otherwise it is there, and counts
		p.stay(palyra.RemnantNotKept, fmt.Sprintf("%s (%d bytes, %s)", i.Path, bytes, i.Digest))
	}
	if !i.Removed {
		p.used += bytes
	}
}
