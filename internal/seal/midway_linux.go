package seal

import (
	"bytes"
	"encoding/json"
	"errors"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/gitfile"
	"palyra/internal/trusted"
)

// A rebase that waits for somebody has a list of what is still to be done, and git
// runs the programs on it when that somebody says --continue. A run may begin such
// a thing, go on with it and end it. What it may not do is leave a list that runs
// a program which nobody but the run put there: a new state is moved away then, and
// of an old one the file that does it, which is written again as it was.

// sequence is what the state in a directory of git's consists of, as far as it can
// run programs.
func (t *tree) sequence(path string) []byte {
	files := map[string][]byte{}
	for _, name := range gitfile.StateFiles {
		if text := t.small(join(path, name)); text != nil {
			files[name] = text
		}
	}
	b, err := json.Marshal(files)
	if err != nil {
		return nil
	}
	return b
}

// settleMidway decides about the state that git was left in.
func (w *walker) settleMidway(p *pen, e entry) (bool, error) {
	was, known := w.known[e.path]
	known = known && was.kind == midway
	before := map[string][]byte{}
	if known && json.Unmarshal(was.text, &before) != nil {
		known, before = false, map[string][]byte{}
	}
	lists := [][]byte{before["git-rebase-todo"], before["git-rebase-todo.backup"], before["todo"]}
	found := false
	for _, name := range gitfile.StateFiles {
		text, there := w.stateFile(join(e.path, name))
		if !there || text != nil && (gitfile.Harmless(name, text, lists) || known && bytes.Equal(text, before[name])) {
			continue
		}
		if !known {
			return true, w.away(p, e)
		}
		found = true
		at, ok := w.dirOf(e)
		if !ok {
			continue // it went away meanwhile
		}
		file := entry{path: join(e.path, name), dir: at, kind: sealed, mode: unix.S_IFREG | 0o644}
		old := file
		old.text = before[name]
		if err := w.putBack(p, old, file); err != nil {
			return true, err
		}
		delete(w.known, old.path)
	}
	return found, nil
}

// stateFile is the content of a file, nil when there is something that cannot be
// read as one.
func (w *walker) stateFile(path string) (text []byte, there bool) {
	fd, err := w.t.open(path, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return nil, false
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return w.t.small(path), true
}

// dirOf finds the directory that an entry is.
func (w *walker) dirOf(e entry) (int32, bool) {
	n := w.out.dirs[e.dir]
	for i := n.child; i < n.child+n.kid; i++ {
		if join(w.out.path(e.dir), w.out.dirs[i].name) == e.path {
			return i, true
		}
	}
	return 0, false
}

// settleLink decides about a link that no name is about. A new one that leads from
// outside to a directory below node_modules makes that another place: it may not
// have what is sealed elsewhere.
func (w *walker) settleLink(p *pen, e entry) (bool, error) {
	if was, ok := w.known[e.path]; ok && was.kind == link && bytes.Equal(was.text, e.text) {
		return false, nil
	}
	_, end, in := w.t.follow(w.out.workspace, e.path)
	switch {
	case !in && w.limits.shuts(end):
		return true, w.away(p, e)
	case !in:
		p.stay(palyra.RemnantLink, e.path)
	case inModules(end):
		left := maxHeld
		if w.holds(end, 0, &left) {
			return true, w.away(p, e)
		}
	}
	return false, nil
}

// maxHeld bounds how far is searched below a link.
const maxHeld = 20_000

// holds reports whether there is something below a directory that would be sealed
// outside node_modules, or more than can be looked through.
func (w *walker) holds(path string, state int32, left *int) bool {
	fd, err := w.t.open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return errors.Is(err, unix.EACCES)
	}
	defer unix.Close(fd)
	type below struct {
		name  string
		state int32
	}
	var dirs []below
	found := errors.New("found")
	err = list(fd, make([]byte, 8<<10), func(name []byte, typ byte) error {
		if *left--; *left < 0 {
			return found
		}
		w.fold = trusted.Fold(w.fold[:0], name)
		what, next := w.m.step(state, w.fold, false)
		if what != free || next != 0 && typ == unix.DT_LNK {
			return found
		}
		if typ == unix.DT_DIR || typ == unix.DT_UNKNOWN {
			dirs = append(dirs, below{string(name), next})
		}
		return nil
	})
	if err != nil {
		return true
	}
	for _, d := range dirs {
		if d.name != modulesDir && w.holds(join(path, d.name), d.state, left) {
			return true
		}
	}
	return false
}
