package quarantine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/subpath"
)

// Shelf is the directory of a name in a quarantine that files of a run are taken to, each into a box of its own. It is
// made with the first of them.
type Shelf struct {
	Taken int    // files that are in their boxes
	Lost  []Item // and those that were beyond what is kept

	top       int
	name      string
	workspace string
	budget    Budget
	to, index *os.File
	boxes     int
}

// OpenShelf opens the shelf of a name in a quarantine for files of a workspace: up to most bytes (0: all) of what is
// under that name are kept.
func OpenShelf(dir, name, workspace string, most int64) (*Shelf, error) {
	if !subpath.PlainID(name) {
		return nil, fmt.Errorf("quarantine: %q is no name", name)
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("quarantine: %w", err)
	}
	return &Shelf{top: top, name: name, workspace: workspace, budget: Budget{Most: most, Used: Used(filepath.Join(dir, name))}}, nil
}

// Close gives the directory back.
func (s *Shelf) Close() {
	for _, f := range []*os.File{s.to, s.index} {
		if f != nil {
			_ = f.Close()
		}
	}
	_ = unix.Close(s.top)
}

func (s *Shelf) open() error {
	if s.to != nil {
		return nil
	}
	if err := unix.Mkdirat(s.top, s.name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := unix.Openat(s.top, s.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.to = os.NewFile(uintptr(fd), s.name)
	fd, err = unix.Openat(fd, IndexName, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	s.index = os.NewFile(uintptr(fd), IndexName)
	return NoteWorkspace(int(s.to.Fd()), s.workspace)
}

// Take takes the file of a path below a tree along, if it is there and the one that is meant.
func (s *Shelf) Take(tree int, path string, meant func(*unix.Stat_t) bool) error {
	return beneath.InParent(tree, path, func(from int, name string) error {
		st, missing, err := beneath.LookAt(from, name)
		if err != nil || missing || !meant(&st) {
			return err
		}
		if err := s.open(); err != nil {
			return err
		}
		i := Item{Item: fmt.Sprintf("run-%06d", s.boxes+1), Path: path, Mode: st.Mode}
		box, err := NewBox(int(s.to.Fd()), i.Item)
		if err != nil {
			return err
		}
		s.boxes++
		err = box.Put(from, name)
		if errors.Is(err, unix.EXDEV) {
			err = beneath.CopyFile(from, name, box.Descriptor(), ItemName, &st)
		}
		if err != nil {
			return errors.Join(err, box.Shut())
		}
		if s.budget.Weigh(box, &i) {
			s.Lost = append(s.Lost, i)
		} else {
			s.Taken++
		}
		return errors.Join(s.write(i), box.Shut())
	})
}

// write adds a line to the index.
func (s *Shelf) write(i Item) error {
	line, err := i.Line()
	if err != nil {
		return err
	}
	_, err = s.index.Write(line)
	return err
}
