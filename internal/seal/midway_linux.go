package seal

import (
	"bytes"
	"encoding/json"
	"errors"

	"golang.org/x/sys/unix"

	"palyra/internal/dirents"
	"palyra/internal/gitfile"
	"palyra/internal/seal/sealname"
	"palyra/internal/trusted"
)

// An unfinished rebase has a list of the remaining steps, and git runs the programs on it when
// somebody says --continue. A run may begin, continue and end a rebase. But it may not leave a list
// that runs a program which the run alone put there: a new state is then moved away, and of an old
// one the file with the program, which is restored.

// sequence encodes the parts of git's unfinished state in a directory that can run programs.
func (t *tree) sequence(path string) []byte {
	files := map[string][]byte{}
	for _, name := range gitfile.StateFiles {
		if text := t.small(join(path, name)); text != nil {
			files[name] = text
		}
	}
	return encodeState(files)
}

// encodeState is the text of an entry for such a state, by the names of its files.
func encodeState(files map[string][]byte) []byte {
	b, err := json.Marshal(files)
	if err != nil {
		return nil
	}
	return b
}

// settleMidway decides about the unfinished state that a run left.
func (w *walker) settleMidway(p *quarantiner, e watchedPath) (bool, error) {
	was, known := w.known[e.path]
	known = known && was.kind == midway
	before := map[string][]byte{}
	if known && json.Unmarshal(was.text, &before) != nil {
		known, before = false, map[string][]byte{}
	}
	lists := [][]byte{before["git-rebase-todo"], before["git-rebase-todo.backup"], before["todo"]}
	found, judged := false, map[string][]byte{}
	for _, name := range gitfile.StateFiles {
		text, there := w.stateFile(join(e.path, name))
		if !there {
			continue
		}
		if text != nil && (gitfile.Harmless(name, text, lists) || known && bytes.Equal(text, before[name])) {
			judged[name] = text
			continue
		}
		if !known {
			return true, w.away(p, e)
		}
		found = true
		at, ok := w.dirOf(e)
		if !ok {
			continue // gone meanwhile
		}
		file := watchedPath{path: join(e.path, name), dir: at, kind: sealed, mode: unix.S_IFREG | 0o644}
		old := file
		old.text = before[name]
		if err := w.putBack(p, old, file); err != nil {
			return true, err
		}
		delete(w.known, old.path)
	}
	w.states[e.path] = encodeState(judged)
	return found, nil
}

// stateFile returns the content of a file, nil when something is there that cannot be read.
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

// dirOf finds the directory node of an entry.
func (w *walker) dirOf(e watchedPath) (int32, bool) {
	n := w.out.dirs[e.dir]
	for i := n.child; i < n.child+n.kid; i++ {
		if join(w.out.path(e.dir), w.out.dirs[i].name) == e.path {
			return i, true
		}
	}
	return 0, false
}

// maxHeld is how many entries are searched below a link.
const maxHeld = 20_000

// holder looks for paths that would be sealed outside node_modules.
type holder struct {
	w    *walker
	left int             // entries that may still be read
	seen map[string]bool // ends of links that were followed
}

// holds reports whether there is such a path below a directory, or more than can be looked through.
// Links in it are followed like the one that led there.
func (h *holder) holds(path string, state int32) bool {
	w := h.w
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
	var links []string
	found := errors.New("found")
	err = dirents.List(fd, make([]byte, 8<<10), func(name []byte, typ byte) error {
		if h.left--; h.left < 0 {
			return found
		}
		w.fold = trusted.Fold(w.fold[:0], name)
		what, next := w.m.Next(state, w.fold, false)
		if what != sealname.Free || next != 0 && typ == unix.DT_LNK {
			return found
		}
		if typ == unix.DT_DIR || typ == unix.DT_UNKNOWN {
			dirs = append(dirs, below{string(name), next})
		}
		if typ == unix.DT_LNK || typ == unix.DT_UNKNOWN {
			links = append(links, string(name))
		}
		return nil
	})
	if err != nil {
		return true
	}
	for _, name := range links {
		if name != modulesDir && h.leads(join(path, name)) {
			return true
		}
	}
	for _, d := range dirs {
		if d.name != modulesDir && h.holds(join(path, d.name), d.state) {
			return true
		}
	}
	return false
}

// leads reports whether a path below node_modules is a link to something that holds such a path.
func (h *holder) leads(path string) bool {
	if _, is := h.w.t.readlink(path); !is {
		return false
	}
	_, end, in := h.w.t.follow(h.w.out.workspace, path)
	switch {
	case !in:
		return h.w.forbids(end)
	case !inModules(end) || h.seen[end]: // outside, every name counts anyway
		return false
	}
	h.seen[end] = true
	return h.holds(end, 0)
}
