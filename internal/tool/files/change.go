//go:build unix

package files

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/tool/files/unified"
)

// state is a file as it stands on disk.
type state struct {
	exists  bool
	content []byte
	digest  palyra.Digest
	mode    uint32 // permission, set-id and sticky bits
	uid     uint32
	gid     uint32
	links   uint64
	mounted bool   // on another mount than the workspace
	newMode uint32 // mode of a file made here
	missing string // the first directory on the way that does not exist
	copy    []byte // how it is shown, where it is masked; nil: as it is
}

// change is one file before and after a call.
type change struct {
	path   string
	action string // create, overwrite, modify, delete, rename, copy: for people
	before state
	after  []byte
	mode   uint32 // permission bits of the new file
	remove bool

	// The parts of the change, where they are known: the places that differ from the content
	// before, or from that of the renamed or copied file.
	spots  []unified.Spot
	origin *source
}

// base is the content that the spots are places in.
func (c change) base() []byte {
	if c.origin != nil {
		return c.origin.content
	}
	return c.before.content
}

// source is a file that a change takes content or mode from without changing it.
type source struct {
	path string
	state
}

// unchanged reports whether the file already is as the change would make it.
func (c change) unchanged() bool {
	return !c.remove && c.before.exists && string(c.before.content) == string(c.after) && c.before.mode == c.mode
}

// look reads the file at rel as a base for a change. It follows no link, and a missing parent is no
// error: the file is then missing as well.
func (r *root) look(rel string) (state, error) {
	dir, st, missing, err := r.nearest(path.Dir(rel))
	if err != nil {
		return state{}, fail("open", rel, err)
	}
	defer func() { _ = unix.Close(dir) }()
	s := state{newMode: fileMode(uint32(st.Mode)), missing: missing, mounted: !sameMount(r.fd, dir)}
	if missing != "" {
		return s, nil
	}
	f, st, err := regularAt(dir, path.Base(rel), rel)
	if palyra.CodeOf(err) == palyra.NotFound {
		return s, nil
	}
	if err != nil {
		return state{}, err
	}
	defer func() { _ = f.Close() }()
	if err := r.ctx.Err(); err != nil {
		return state{}, err
	}
	if st.Size <= r.cfg.MaxFile && st.Size > r.left {
		return state{}, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "%s grows while it is looked at", quote(rel)).
			WithRemedy("propose the call anew")
	}
	if s.content, err = readAll(f, rel, min(r.cfg.MaxFile, r.left)); err != nil {
		return state{}, err
	}
	r.left -= int64(len(s.content))
	if err := writable(dir, path.Base(rel)); err != nil {
		return state{}, fail("write", rel, err)
	}
	masked, err := r.masked(rel)
	if err != nil {
		return state{}, err
	}
	if masked {
		s.copy = r.masks.mask.Mask(rel, s.content)
	}
	s.exists, s.digest = true, palyra.SumBytes(s.content)
	s.mode, s.uid, s.gid, s.links = uint32(st.Mode)&0o7777, st.Uid, st.Gid, uint64(st.Nlink)
	return s, nil
}

// writable asks the kernel whether the file could be written in place. Changes replace it instead,
// but a write-protected file is protected from us too.
func writable(dir int, name string) error {
	fd, err := openat(dir, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == unix.ETXTBSY { // a running program: replacing the file leaves that alone
		return nil
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// nearest opens the directory rel, or the deepest existing one on the way; missing is then the
// first that does not exist.
func (r *root) nearest(rel string) (fd int, st unix.Stat_t, missing string, err error) {
	for {
		fd, err = r.open(rel, oPath|unix.O_DIRECTORY)
		if err == nil {
			err = unix.Fstat(fd, &st)
			if err != nil {
				_ = unix.Close(fd)
			}
			return fd, st, missing, err
		}
		if err != unix.ENOENT || rel == "." {
			return -1, st, "", err
		}
		missing, rel = rel, path.Dir(rel)
	}
}

// fileMode gives a new file in a directory the permissions of the directory itself, without writing by others.
func fileMode(dir uint32) uint32 { return dir&0o664 | 0o600 }

// dirMode gives a new directory on the way to a file that file's permissions: whoever may read the
// file may pass. It needs nothing that the plan does not bind.
func dirMode(file uint32) uint32 { return executable(file, true)&0o775 | 0o700 }

// executable sets or clears the execute bits, for those who may read.
func executable(mode uint32, on bool) uint32 {
	if on {
		return mode | mode&0o444>>2
	}
	return mode &^ 0o111
}

// bind puts changes into a plan: the files that are read and written, and the required state of
// each file that decides the result when the call runs. Together with the arguments that settles
// the content and the mode of every file written. Changes come sorted by path.
func bind(p *palyra.Plan, changes []change, sources []source) {
	bases := map[string]bool{}
	for _, c := range changes {
		bases[c.path] = true
		p.Writes = append(p.Writes, c.path)
		p.Inputs = append(p.Inputs, c.input())
		if c.remove {
			p.Removes = append(p.Removes, c.path)
		}
	}
	for _, s := range sources {
		p.Reads = append(p.Reads, s.path)
		if !bases[s.path] { // otherwise the change binds it: each file is read once
			p.Inputs = append(p.Inputs, palyra.Input{Path: s.path, Digest: s.digest, Mode: s.mode})
		}
	}
	slices.Sort(p.Reads)
	p.Reads = slices.Compact(p.Reads)
	slices.SortFunc(p.Inputs, func(a, b palyra.Input) int { return strings.Compare(a.Path, b.Path) })
	p.Inputs = slices.Compact(p.Inputs)
}

// input is the state of the file before a change, which a plan binds. For a missing file that is
// its future mode, which may follow from the directory.
func (c change) input() palyra.Input {
	in := palyra.Input{Path: c.path, Digest: c.before.digest, Mode: c.before.mode}
	if !c.before.exists {
		in.Mode = c.mode
	}
	return in
}

// bound returns an error for the first file that is not in the state which the plan bound. It
// compares the content that the changes were made from, not the present one on disk.
func bound(p palyra.Plan, changes []change, sources []source) error {
	var now palyra.Plan
	bind(&now, changes, sources)
	if !slices.Equal(p.Writes, now.Writes) || !slices.Equal(p.Removes, now.Removes) || !slices.Equal(p.Reads, now.Reads) ||
		len(p.Inputs) != len(now.Inputs) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged,
			"the call would read or write other files than planned; nothing was written").
			WithRemedy("propose the call anew")
	}
	for i, in := range now.Inputs {
		if p.Inputs[i] != in {
			return moved(in.Path)
		}
	}
	return nil
}

// arrange sorts changes and refuses sets that contradict themselves: one file
// twice, or a file where another needs a directory.
func arrange(changes []change) error {
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.path, b.path) })
	seen := map[string]change{}
	for _, c := range changes {
		if _, twice := seen[c.path]; twice {
			return unified.Mismatch("%s is changed twice", quote(c.path))
		}
		seen[c.path] = c
	}
	for _, c := range changes {
		for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
			if _, file := seen[dir]; file {
				return unified.Mismatch("%s is used both as a file and as a directory", quote(dir))
			}
		}
	}
	return nil
}

// remarks lists what a person should know about a change beyond its diff.
func (c change) remarks() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	name := quoteUnlessPlain(c.path)
	switch {
	case c.remove && c.action == "delete":
		note("deletes %s (%d bytes)", name, len(c.before.content))
	case c.remove:
	case !c.before.exists:
		note("creates %s with mode %04o", name, c.mode)
	case c.action == "overwrite":
		note("overwrites %s (%d bytes, %s)", name, len(c.before.content), c.before.digest)
	}
	if c.before.missing != "" {
		note("makes the directory %s", quoteUnlessPlain(c.before.missing))
	}
	if c.before.exists && !c.remove && c.before.mode != c.mode {
		note("changes the mode of %s from %04o to %04o", name, c.before.mode, c.mode)
	}
	if c.before.links > 1 {
		note("%s has %d names; the others, which may lie outside the workspace, keep the old content", name, c.before.links)
	}
	notes = append(notes, carried(c)...)
	if c.before.mounted {
		note("%s lies on something that is mounted in the workspace: it may belong to a directory elsewhere", name)
	}
	return notes
}
