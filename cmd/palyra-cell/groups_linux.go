package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// named are the cgroups in which a launcher is born, as they stand on a command
// line. A cell in a room has none: it was born in its cgroups itself.
type named []string

// enter puts the calling thread into v1 cgroups, which its children are then born
// in, and returns the v2 one to be born into; nil when there is none.
func (n named) enter() (into *os.File, err error) {
	for _, g := range n {
		if tasks, ok := strings.CutPrefix(g, cell.TasksArg); ok {
			if err = os.WriteFile(tasks, []byte("0"), 0); err != nil {
				return nil, err
			}
			continue
		}
		dir, ok := strings.CutPrefix(g, cell.IntoArg)
		if !ok || into != nil {
			return nil, errors.New("a command line that is not the daemon's")
		}
		if into, err = os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return nil, err
		}
	}
	return into, nil
}

// leave takes the thread out again, into groups that bound nothing: in the run's own
// memory group it could be killed for what the run uses.
func (n named) leave() error {
	for _, g := range n {
		if tasks, ok := strings.CutPrefix(g, cell.TasksArg); ok {
			if err := os.WriteFile(filepath.Join(filepath.Dir(tasks), "..", "tasks"), []byte("0"), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// handed are what a cell may read of its cgroups, whose paths mean nothing inside,
// as descriptors that came with the room.
type handed struct {
	extra []string
	files []*os.File
}

// check refuses what could be written: a user can take it from here.
func (g handed) check() error {
	for _, f := range g.files {
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		if flags&(unix.O_ACCMODE|unix.O_PATH) != unix.O_RDONLY {
			return errors.New("a descriptor that is for more than reading")
		}
	}
	return nil
}

// counter: there is an i-th descriptor, and it is one.
func (g handed) counter(i int) bool { return i < len(g.extra) && g.extra[i] == cell.ExtraCounter }
