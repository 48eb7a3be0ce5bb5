package cells

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Handles are read-only files of a keeper's group as descriptors, for a cell that sees no cgroups. A cell runs
// under the uid of a user, who can take its descriptors; so none of them can be written.
type Handles struct {
	Extra    []string // purpose of each, in the cell's words
	Files    []*os.File
	Counters cell.Counters // with the names that the cell uses
}

// Handles opens them.
func (k *Keeper) Handles() (h Handles, err error) {
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	h.Counters = k.counters
	c := &h.Counters
	for _, p := range []*string{&c.OOM, &c.PidsMax, &c.PeakBytes, &c.PeakPids, &c.CPUNanos, &c.CPUMicros} {
		if *p == "" {
			continue
		}
		if err = h.add(cell.ExtraCounter, *p); err != nil {
			return h, err
		}
		*p = cell.ExtraPath(len(h.Files) - 1)
	}
	return h, nil
}

func (h *Handles) add(what, path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cells: cgroup: open %s: %w", path, err)
	}
	h.Extra, h.Files = append(h.Extra, what), append(h.Files, os.NewFile(uintptr(fd), path))
	return nil
}

// Close closes the descriptors here; those that were passed on stay open there.
func (h *Handles) Close() {
	cell.CloseAll(h.Files)
	h.Files = nil
}
