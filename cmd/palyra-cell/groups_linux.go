package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// named are the cgroups in which a launcher is born, as given on a command line. A cell in a room
// gets no names: it was born in its cgroups itself.
type named []string

// enter puts the calling thread into v1 cgroups, so that its children are born in them, and returns
// the v2 one to be born into; nil without one.
func (n named) enter() (into *os.File, err error) {
	for _, g := range n {
		if tasks, ok := strings.CutPrefix(g, cell.TasksArg); ok {
			if err = os.WriteFile(tasks, []byte("0"), 0); err != nil {
				return nil, err
			}
			continue
		}
		if g == cell.LaunchArg {
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

// leave takes the thread out again, into groups without limits: in the run's own memory group it
// could be killed for what the run uses.
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

// handed are the counters that a cell may read of its cgroups, as descriptors that came with the
// room: paths of cgroups mean nothing inside.
type handed struct {
	extra []string
	files []*os.File
}

// check refuses descriptors that could be written: a user can take them from this process.
func (g handed) check() error {
	for i, f := range g.files {
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		want := unix.O_RDONLY
		if g.extra[i] == cell.ExtraWorkspace {
			want = unix.O_PATH
		}
		if flags&(unix.O_ACCMODE|unix.O_PATH) != want {
			return errors.New("a descriptor that is for more than reading")
		}
	}
	return nil
}

// take gives the descriptor of a purpose away; nil: there is none.
func (g handed) take(what string) *os.File {
	for i, name := range g.extra {
		if name == what {
			f := g.files[i]
			g.files[i] = nil
			return f
		}
	}
	return nil
}

// counter reports whether the i-th descriptor exists and is a counter.
func (g handed) counter(i int) bool { return i < len(g.extra) && g.extra[i] == cell.ExtraCounter }

func (g handed) close() { cell.CloseAll(g.files) }
