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

// Handles opens them. They stay open as long as the keeper is there, which reads its account from them.
func (k *Keeper) Handles() (h Handles, err error) {
	h.Counters = k.counters
	c := &h.Counters
	for _, p := range []*string{&c.OOM, &c.PidsMax, &c.PeakBytes, &c.PeakPids, &c.CPUNanos, &c.CPUMicros} {
		if *p == "" {
			continue
		}
		f, err := k.count(*p)
		if err != nil {
			return h, err
		}
		h.Extra, h.Files = append(h.Extra, cell.ExtraCounter), append(h.Files, f)
		*p = cell.ExtraPath(len(h.Files) - 1)
	}
	return h, nil
}

// count opens a counter.
func (k *Keeper) count(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cells: cgroup: open %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	k.counts = append(k.counts, f)
	return f, nil
}
