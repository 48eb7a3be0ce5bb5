package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// groups are the cgroups in which a launcher is born.
type groups interface {
	// enter puts the calling thread into v1 cgroups, which its children are then
	// born in, and returns the v2 one to be born into; nil when there is none.
	enter() (into *os.File, err error)
	// leave takes the thread out again, into groups that bound nothing: in the
	// run's own memory group it could be killed for what the run uses. pid is the
	// launcher.
	leave(pid int) error
}

// named are cgroups as they stand on a command line.
type named []string

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

func (n named) leave(int) error {
	for _, g := range n {
		if tasks, ok := strings.CutPrefix(g, cell.TasksArg); ok {
			if err := os.WriteFile(filepath.Join(filepath.Dir(tasks), "..", "tasks"), []byte("0"), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// errGroup is a cgroup that could not be entered or left.
var errGroup = errors.New("cgroup")

// handed are cgroups that came as descriptors with a room, whose paths mean
// nothing inside.
type handed struct {
	extra []string
	files []*os.File
}

// of returns the descriptors that are for what name says.
func (g handed) of(name string) (files []*os.File) {
	for i, n := range g.extra {
		if n == name {
			files = append(files, g.files[i])
		}
	}
	return files
}

func (g handed) enter() (*os.File, error) {
	if err := g.write(cell.ExtraTasks, "0"); err != nil {
		return nil, err
	}
	if into := g.of(cell.ExtraInto); len(into) > 0 {
		return into[0], nil
	}
	return nil, nil
}

func (g handed) leave(pid int) error {
	return errors.Join(g.write(cell.ExtraProcs, strconv.Itoa(pid)), g.write(cell.ExtraLeave, "0"))
}

// write writes text to each of the files; the kernel takes it whole or not.
func (g handed) write(name, text string) error {
	for _, f := range g.of(name) {
		if _, err := unix.Write(int(f.Fd()), []byte(text)); err != nil {
			return fmt.Errorf("%w: %s: %w", errGroup, name, err)
		}
	}
	return nil
}

// close closes all but the counters, which are read to the end.
func (g handed) close() {
	for i, f := range g.files {
		if g.extra[i] != cell.ExtraCounter {
			_ = f.Close()
		}
	}
}

// counter: there is an i-th descriptor, and it is one.
func (g handed) counter(i int) bool { return i < len(g.extra) && g.extra[i] == cell.ExtraCounter }
