package cells

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Handles are the files of a keeper's group as descriptors, for a cell that sees
// no cgroups. They carry the daemon's rights: the cell has none.
type Handles struct {
	Extra    []string // what each is for, in the cell's language
	Files    []*os.File
	Counters cell.Counters // as the cell is to name them
}

// Born opens the directory in which a cell that lives inside is to be born itself;
// nil: there is none. That is on v2, where moving costs a grace period of the
// kernel and a cell may not give birth outside of its cgroup namespace.
func (k *Keeper) Born() (*os.File, error) {
	if k.Group == nil || k.Group.Version != 2 {
		return nil, nil
	}
	f, err := os.OpenFile(filepath.Join(k.Group.Tree, k.Group.name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("cells: cgroup: %w", err)
	}
	return f, nil
}

// Handles opens them. On v1 the launcher alone is born in the group.
func (k *Keeper) Handles() (h Handles, err error) {
	if k.Group == nil {
		return h, nil
	}
	g := k.Group
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	for _, d := range g.Dirs() {
		if g.Version == 2 {
			break
		}
		if err = h.add(cell.ExtraTasks, g.file(d, "tasks"), unix.O_WRONLY); err != nil {
			return h, err
		}
		if err = h.add(cell.ExtraLeave, filepath.Join(d, "tasks"), unix.O_WRONLY); err != nil {
			return h, err
		}
	}
	h.Counters = k.counters
	c := &h.Counters
	for _, p := range []*string{&c.OOM, &c.PidsMax, &c.PeakBytes, &c.PeakPids, &c.CPUNanos, &c.CPUMicros} {
		if *p == "" {
			continue
		}
		if err = h.add(cell.ExtraCounter, *p, unix.O_RDONLY); err != nil {
			return h, err
		}
		*p = cell.ExtraPath(len(h.Files) - 1)
	}
	return h, nil
}

func (h *Handles) add(what, path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cells: cgroup: open %s: %w", path, err)
	}
	h.Extra, h.Files = append(h.Extra, what), append(h.Files, os.NewFile(uintptr(fd), path))
	return nil
}

// Close closes what was opened here; whoever was given them has his own.
func (h *Handles) Close() {
	cell.CloseAll(h.Files)
	h.Files = nil
}
