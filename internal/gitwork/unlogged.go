package gitwork

import (
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"palyra/internal/gitrepo"
)

// Bounds of a look through logs.
const (
	maxLogs     = 2_000
	maxLogBytes = 32 << 20 // of all of them
	maxLogDepth = 32
)

// Unlogged reports whether a branch, tag or note of the repository at dir leads elsewhere after a run, or nowhere, and
// no log there has where it led: git logs no tags, and forgets a branch's log with it. What cannot be read is not logged.
func Unlogged(ctx context.Context, before, after gitrepo.Files, dir string) bool {
	was, err := refsOf(ctx, before, dir)
	if err != nil {
		return true
	}
	now, err := refsOf(ctx, after, dir)
	if err != nil {
		return true
	}
	l := &logs{ctx: ctx, files: after, want: map[gitrepo.ID]bool{}, seen: map[string]bool{}, left: maxLogBytes}
	var names []string
	for ref, id := range was {
		if ref != "HEAD" && counted(ref) && now[ref] != id {
			l.want[id] = true
			names = append(names, path.Join(dir, "logs", ref))
		}
	}
	for _, name := range names { // what moves on is logged there
		l.read(name)
	}
	l.walk(path.Join(dir, "logs"), 0)
	for _, e := range l.list(path.Join(dir, "worktrees")) {
		l.walk(path.Join(dir, "worktrees", e.Name(), "logs"), 0)
	}
	return len(l.want) > 0
}

func refsOf(ctx context.Context, files gitrepo.Files, dir string) (map[string]gitrepo.ID, error) {
	r, err := gitrepo.Open(ctx, files, dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Refs()
}

// logs looks for IDs in a repository's logs.
type logs struct {
	ctx   context.Context
	files gitrepo.Files
	want  map[gitrepo.ID]bool // not found yet
	seen  map[string]bool     // files that were read
	left  int64               // bytes that may still be read
}

// over reports whether nothing is left to look for, or may be.
func (l *logs) over() bool {
	return len(l.want) == 0 || l.left <= 0 || len(l.seen) >= maxLogs || l.ctx.Err() != nil
}

func (l *logs) list(dir string) []fs.DirEntry {
	if l.over() {
		return nil
	}
	entries, err := l.files.ReadDir(dir, maxLogs)
	if err != nil {
		return nil
	}
	return entries
}

// walk reads the logs in a directory.
func (l *logs) walk(dir string, depth int) {
	if depth > maxLogDepth {
		return
	}
	for _, e := range l.list(dir) {
		if name := path.Join(dir, e.Name()); e.IsDir() {
			l.walk(name, depth+1)
		} else {
			l.read(name)
		}
	}
}

// read looks through one log. One that is too large is looked through from its end on, where the last changes are.
func (l *logs) read(name string) {
	if l.over() || l.seen[name] {
		return
	}
	l.seen[name] = true
	f, err := l.files.Open(name)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // it was only read
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return
	}
	if more := fi.Size() - min(maxLog, l.left); more > 0 {
		if _, err := f.Seek(more, io.SeekStart); err != nil {
			return
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, min(maxLog, l.left)))
	if l.left -= int64(len(text)); err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		for _, id := range logged(line) {
			delete(l.want, id)
		}
	}
}

// logged are the IDs that a line of a log is about.
func logged(line string) (ids []gitrepo.ID) {
	from, rest, _ := strings.Cut(line, " ")
	to, _, _ := strings.Cut(rest, " ")
	for _, word := range []string{from, to} {
		if id, err := gitrepo.ParseID(word); err == nil {
			ids = append(ids, id)
		}
	}
	return slices.Compact(ids)
}
