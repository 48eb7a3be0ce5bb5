package effects

import (
	"fmt"
	"strings"

	"palyra"
)

// Bounds of what people are told at first; the list has the rest.
const (
	shownNames = 6
	shownPaths = 8

	shownUnusual = 120 // bytes
)

// Describe says in words what a run changed: what is out of the ordinary first, then the paths, those that were
// there before ahead of those that are new.
func Describe(f palyra.EffectFacts, all []palyra.Change) palyra.Detail {
	d := palyra.Detail{Summary: "keep what it changed: " + counts(f)}
	note := func(what string, names []palyra.PathText) {
		if len(names) > 0 {
			d.Notes = append(d.Notes, what+": "+few(names))
		}
	}
	here, inGit := byPlace(f, all)
	note("makes other programs run code", here)
	note("makes other programs run code, by git's index or commits", inGit)
	note("links that lead out of the workspace", f.Outward)
	if n := f.RemovedFiles; n > 0 {
		note(fmt.Sprintf("removes or empties %s that %s there before", files(n), wereOf(n)), removed(all))
	}
	note("takes edits that no commit has", f.Uncommitted)
	if len(f.Rewound) > 0 {
		d.Notes = append(d.Notes, "takes commits from "+few(f.Rewound))
	}
	if why := Lasting(f.NotUndoable, f.PushesOut); why != "" {
		d.Notes = append(d.Notes, why)
	}
	if len(d.Notes) > 0 { // where nothing but the summary is shown, it says what is out of the ordinary
		d.Summary += "; " + palyra.Clip(d.Notes[0], shownUnusual)
	}
	note("builds and tests run", f.RunByTools)
	if f.NeverKept > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("set-id files, devices or sockets that are left out whatever you answer: %d", f.NeverKept))
	}
	if f.Omitted > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("changes that are counted and not listed, or of files that were too large to be read: %d",
			f.Omitted))
	}
	d.Notes = append(d.Notes, paths(all)...)
	return d
}

// Lasting says that changes cannot be undone, or that those of so many other calls cannot be because of them.
func Lasting(notUndoable bool, pushesOut int64) string {
	switch {
	case notUndoable:
		return "cannot be undone later: what it replaces is more than is kept for 'palyra undo'"
	case pushesOut > 0:
		return fmt.Sprintf("takes the room of what %s of the last 24 hours replaced, which cannot be undone any more then", calls(pushesOut))
	}
	return ""
}

// byPlace sorts trusted names by whether they are changed files or links, or come in by a repository.
func byPlace(f palyra.EffectFacts, all []palyra.Change) (here, inGit []palyra.PathText) {
	changed := make(map[palyra.PathText]bool, len(all))
	for _, n := range f.Outward { // some did not change, and lead elsewhere
		changed[n] = true
	}
	for _, c := range all {
		changed[c.Path] = true
	}
	for _, n := range f.Trusted {
		if changed[n] {
			here = append(here, n)
		} else {
			inGit = append(inGit, n)
		}
	}
	return here, inGit
}

// counts is how many paths of each kind are different.
func counts(f palyra.EffectFacts) string {
	var out []string
	for _, c := range []struct {
		n    int64
		kind palyra.ChangeKind
	}{
		{f.Removed, palyra.ChangeRemoved},
		{f.Changed, palyra.ChangeContent},
		{f.Created, palyra.ChangeCreated},
		{f.Mode, palyra.ChangeMode},
		{f.Link, palyra.ChangeLink},
	} {
		if c.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", c.n, c.kind))
		}
	}
	if f.Bytes > 0 && len(out) > 0 {
		out[len(out)-1] += fmt.Sprintf(" (%d bytes)", f.Bytes)
	}
	return strings.Join(out, ", ")
}

func removed(all []palyra.Change) (out []palyra.PathText) {
	for _, c := range all {
		if gone(c) {
			out = append(out, c.Path)
		}
	}
	return out
}

// paths are the first changes, a line each.
func paths(all []palyra.Change) (out []string) {
	ordered := inOrder(all)
	for i, c := range ordered {
		if i == shownPaths {
			return append(out, fmt.Sprintf("and %d more", len(ordered)-i))
		}
		line := fmt.Sprintf("%-8s %s", c.Kind, c.Path)
		if c.Now != nil && c.Now.Kind == palyra.PathLink {
			line += " → " + string(c.Now.Target)
		}
		if c.Now != nil && c.Now.Kind == palyra.PathFile && c.Now.Mode&0o111 != 0 {
			line += " (executable)"
		}
		out = append(out, line)
	}
	return out
}

func few[T ~string](names []T) string {
	var out []string
	for i, n := range names {
		if i == shownNames {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(names)-i)
		}
		out = append(out, palyra.Clip(string(n), 256))
	}
	return strings.Join(out, ", ")
}

func files(n int64) string {
	if n == 1 {
		return "a file"
	}
	return fmt.Sprintf("%d files", n)
}

func calls(n int64) string {
	if n == 1 {
		return "a call"
	}
	return fmt.Sprintf("%d calls", n)
}

func wereOf(n int64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
