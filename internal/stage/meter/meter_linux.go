package meter

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

// The bounds of paths.
const (
	mostPath  = 4_000    // bytes of one: one system call takes it
	mostNames = 64 << 20 // bytes of all
)

// OverError says that there is more than there may be.
type OverError struct {
	What string
	Of   string // "bytes" or "names"
}

// Error implements error.
func (e *OverError) Error() string { return "meter: more than there may be: " + e.What }

// Meter adds up what is in a tree.
type Meter struct {
	Entries int          // names that there may be
	Most    int64        // bytes
	Ended   *atomic.Bool // nobody wants to know any more

	Names int
	Bytes int64
	text  int // bytes of the paths of directories
}

// Count goes through a tree, one directory after the other: those that wait are known
// by their paths, however many there are and however deep they lie.
func (m *Meter) Count(top int) error {
	for dirs := []string{""}; len(dirs) > 0 && !m.Ended.Load(); {
		rel := dirs[len(dirs)-1]
		more, err := m.dir(top, rel)
		if err != nil {
			return err
		}
		dirs = append(dirs[:len(dirs)-1], more...)
	}
	return nil
}

// dir adds up a directory and returns those that are in it.
func (m *Meter) dir(top int, rel string) (more []string, err error) {
	fd, err := beneath.OpenIn(top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := beneath.NamesOf(fd, m.Entries-m.Names)
	if many := (*beneath.ManyError)(nil); errors.As(err, &many) {
		return nil, &OverError{fmt.Sprintf("%d names in one directory", many.Most), "names"}
	}
	for _, n := range names {
		m.Names++
		var st unix.Stat_t
		if unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if m.Bytes += st.Blocks * 512; m.Bytes > m.Most {
			return nil, &OverError{fmt.Sprintf("%d bytes", m.Most), "bytes"}
		}
		if beneath.IsDir(&st) && len(rel)+len(n) < mostPath {
			p := beneath.Join(rel, n)
			if m.text += len(p); m.text > mostNames {
				return nil, &OverError{fmt.Sprintf("paths of %d bytes together", mostNames), "names"}
			}
			more = append(more, p)
		}
	}
	return more, nil
}
