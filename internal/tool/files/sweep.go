//go:build unix

package files

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
)

// tempPrefix begins the temporary names of a call, and tempSuffix ends them.
func tempPrefix(call palyra.CallID) string { return fmt.Sprintf(".palyra-%s-", call) }

const tempSuffix = ".tmp"

// callIDLength is the length of a call's id. A shorter text could be the beginning of another call's names.
const callIDLength = 26

// Sweep removes the temporary files of a call whose daemon died: names that carry the id of that very call, in the
// directories that its plan writes to. It removes nothing else, and nothing but files and empty directories.
//
// A call of one file has done all of its work or none. If a call of several files died while it put them in place,
// the temporary names hold the former files: those stay, and are returned, because they are the only copies.
func Sweep(ctx context.Context, call palyra.CallID, p palyra.Plan) (stay []string, err error) {
	if len(call) != callIDLength || p.Tier != palyra.TierBuiltin || len(p.Writes) == 0 || !path.IsAbs(p.Workspace.Path) {
		return nil, nil
	}
	s := &shared{cfg: Config{}.withDefaults()}
	err = s.inWorkspace(ctx, p.Workspace, func(r *root) error {
		for _, dir := range parentDirs(p.Writes) {
			left, err := r.sweep(dir, call, p)
			stay = append(stay, left...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return stay, err
}

// parentDirs lists the directories of paths, and those above them, once each.
func parentDirs(writes []string) []string {
	dirs := []string{"."}
	for _, w := range writes {
		for dir := path.Dir(path.Clean(w)); dir != "." && dir != "/" && !strings.HasPrefix(dir, ".."); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// sweep clears one directory. A missing one has nothing to clear.
func (r *root) sweep(dir string, call palyra.CallID, p palyra.Plan) (stay []string, err error) {
	d, err := r.dir(dir)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = d.Close() }()
	names, err := (&walker{ctx: r.ctx}).names(d, dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix(call)) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if !r.clear(int(d.Fd()), name, p) {
			stay = append(stay, path.Join(dir, name))
		}
	}
	return stay, nil
}

// clear removes a temporary name; false: it stays.
func (r *root) clear(dir int, name string, p palyra.Plan) bool {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return true // gone
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) == nil
	case unix.S_IFREG:
		if len(p.Writes) > 1 && r.former(dir, name, p) {
			return false
		}
		return unix.Unlinkat(dir, name, 0) == nil
	}
	return false
}

// former reports whether a temporary file may hold the former content of one of the plan's files.
func (r *root) former(dir int, name string, p palyra.Plan) bool {
	f, _, err := regularAt(dir, name, name)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	b, err := readAll(f, name, r.cfg.MaxFile)
	if err != nil {
		return true
	}
	digest := palyra.SumBytes(b)
	return slices.ContainsFunc(p.Inputs, func(in palyra.Input) bool { return in.Digest == digest })
}
