// Package cage says what a script of a skill may do within its room: which files of the workspace it may read and write,
// which programs it may start, and which files of its package it finds.
//
// Words: a cage is the least of what a manifest asks for, an operator granted and policy allows, as a room holds it. A pack
// is the folder of a verified package, as the room shows it.
//
// A cage is drawn from the plan that was judged, so what holds is what people were shown. It holds files and programs; hosts
// and secrets are the guard's. It is held by Landlock: a file that it does not name cannot be opened, listed or started. What
// may not be written lies in a read-only mount besides: Landlock knows nothing of modes and times. Whether there is a file can
// still be asked. Programs that were not granted cannot be started where they lie, but a program that is started can run what it
// can read or make, in its memory or by way of the dynamic loader; what it runs is in the same cage.
//
// Its words are those of docs/words.md.
package cage

import (
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/subpath"
)

// Mechanism is that by which a script is held to its manifest.
const Mechanism = "skill_cage"

// Unknown stands for all that a cage names: what a run needed of it is not known.
const Unknown = "all:of it"

// Top is the directory of a room below which packs lie.
const Top = "/skill"

// Cage is what one run may do. Its paths are of the room, absolute.
type Cage struct {
	Read     []string // files of the workspace, and what is below them
	Write    []string // the same, to read and write
	Programs []string // to start
	Pack     Layout
}

// Layout is the folder of a package.
type Layout struct {
	Digest palyra.Digest // of the package
	At     string        // where the room has it
	Files  []File
}

// File is a file of a pack.
type File struct {
	Path   string // absolute
	Data   []byte
	Script bool // it may be started as it stands
}

// At is where the room of a skill's script has its folder.
func At(id string) string { return path.Join(Top, id) }

// Own are the mechanisms of a promise that a cage answers for.
func Own(mechanisms []string) (out []string) {
	for _, m := range mechanisms {
		if strings.HasPrefix(m, "skill:") || strings.HasPrefix(m, "skill_") {
			out = append(out, m)
		}
	}
	return out
}

// Files are those of the inputs of a plan that are files of the machine: what a skill is has names of another kind.
func Files(all []palyra.Input) []palyra.Input {
	return slices.DeleteFunc(slices.Clone(all), func(in palyra.Input) bool { return strings.HasPrefix(in.Path, "skill:") })
}

// Needed reports whether a plan promises a cage.
func Needed(p palyra.Plan) bool { return slices.Contains(p.Enforcement.Mechanisms, Mechanism) }

// Of draws the cage of a plan: granted are paths below its workspace.
func Of(p palyra.Plan, pack Layout, read, write []string) *Cage {
	c := &Cage{Pack: pack, Programs: []string{p.Executable.Path}}
	for _, rel := range read {
		c.Read = append(c.Read, path.Join(p.Workspace.Path, rel))
	}
	for _, rel := range write {
		c.Write = append(c.Write, path.Join(p.Workspace.Path, rel))
	}
	for _, in := range p.Inputs { // programs, by their whole paths: everything else that is bound has a name of another kind
		if path.IsAbs(in.Path) && in.Digest != "" {
			c.Programs = append(c.Programs, in.Path)
		}
	}
	slices.Sort(c.Programs)
	c.Programs = slices.Compact(c.Programs)
	return c
}

// Open are the paths that can be changed, without those that lie in others of them.
func (c *Cage) Open() (out []string) {
	for _, p := range slices.Sorted(slices.Values(c.Write)) {
		if !slices.ContainsFunc(out, func(top string) bool { return subpath.Within(top, p) }) {
			out = append(out, p)
		}
	}
	return out
}

// Prefixes are the directories that programs outside of the usual ones have their own files in: /opt/node of /opt/node/bin/node.
func (c *Cage) Prefixes() (out []string) {
	for _, p := range c.Programs {
		dir := path.Dir(path.Dir(p))
		for _, top := range []string{"/opt", "/usr/local"} {
			if subpath.Below(top, dir) && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
	}
	return out
}
