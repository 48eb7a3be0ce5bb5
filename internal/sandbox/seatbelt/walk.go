package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/seal"
)

// The limits of a walk.
const (
	maxEntries = 500_000
	maxMarks   = 2_048
	maxDepth   = 256
	batch      = 1_024 // entries read at once
)

// whole is the path of the workspace itself, which is kept where it is a repository.
const whole = "."

// quarantineDir is the directory that a walk does not enter.
const quarantineDir = ".palyra/quarantine"

// walk looks for sealed paths below a workspace. It follows no link, and never leaves the root.
type walk struct {
	ctx     context.Context
	root    *os.Root
	names   *seal.Matcher
	entries int
	most    int
	found   []mark
}

// look returns the sealed paths of a workspace, in their order, without those below another. It
// refuses a workspace that is sealed itself, or lies in a sealed directory.
func look(ctx context.Context, workspace string, names *seal.Matcher, most int) ([]mark, error) {
	if len(names.Rules()) == 0 {
		return nil, nil
	}
	top, err := seal.Start(names, workspace)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("seatbelt: look: %w", err)
	}
	defer func() { _ = root.Close() }()
	w := &walk{ctx: ctx, root: root, names: names, most: most}
	if err := w.dir("", 0, top); err != nil {
		return nil, err
	}
	slices.SortFunc(w.found, func(a, b mark) int { return strings.Compare(a.Path, b.Path) })
	return w.found, nil
}

// dir looks at the entries of a directory.
func (w *walk) dir(rel string, depth int, spot seal.Spot) error {
	if depth > maxDepth {
		return sealDenied("%q is more than %d directories deep", palyra.Clip(rel, 256), maxDepth)
	}
	entries, err := w.list(rel)
	if err != nil {
		return err
	}
	if isRepository(entries) {
		var keeps bool
		if spot, keeps = w.names.Enter(spot); keeps {
			if err := w.mark(path.Join(".", rel), true); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		if err := w.entry(rel, depth, spot, e); err != nil {
			return err
		}
	}
	return nil
}

// entry looks at one entry, and at its content.
func (w *walk) entry(dir string, depth int, spot seal.Spot, e fs.DirEntry) error {
	at := join(dir, e.Name())
	there, seals, keeps := w.names.Step(spot, e.Name())
	if seals || keeps {
		inside := keeps && e.IsDir()
		if err := w.mark(at, inside); err != nil || !inside {
			return err
		}
	}
	if !e.IsDir() || at == quarantineDir {
		return nil
	}
	return w.dir(at, depth+1, there)
}

// mark notes a path, once.
func (w *walk) mark(rel string, keep bool) error {
	if len(w.found) > 0 && w.found[len(w.found)-1].Path == rel {
		return nil
	}
	fi, err := w.root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return fmt.Errorf("seatbelt: look: %w", err)
	}
	if len(w.found) == maxMarks {
		return sealDenied("the workspace has more than %d sealed paths", maxMarks)
	}
	w.found = append(w.found, mark{Path: rel, Keep: keep, Mode: uint32(fi.Mode()), Size: fi.Size(), Time: fi.ModTime().UnixNano()})
	return nil
}

func (w *walk) list(rel string) ([]fs.DirEntry, error) {
	d, err := w.root.Open(path.Join(".", rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("seatbelt: look: %w", err)
	}
	defer func() { _ = d.Close() }()
	var out []fs.DirEntry
	for {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		some, err := d.ReadDir(batch)
		if w.entries += len(some); w.entries > w.most {
			return nil, sealDenied("the workspace has more than %d files", w.most)
		}
		out = append(out, some...)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("seatbelt: look: %w", err)
		}
	}
}

// isRepository reports whether git would take a directory for a repository.
func isRepository(entries []fs.DirEntry) bool {
	has := map[string]bool{}
	for _, e := range entries {
		has[seal.Fold(e.Name())] = true
	}
	return has["head"] && ((has["objects"] && has["refs"]) || has["commondir"])
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func sealDenied(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied, format, args...).WithRemedy("use a smaller workspace")
}

// pinned returns the directories on the way to marks, which must stay where they are.
func pinned(marks []mark) []string {
	var out []string
	for _, m := range marks {
		for d := path.Dir(m.Path); d != "."; d = path.Dir(d) {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
