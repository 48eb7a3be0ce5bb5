// Package profile knows what the rooms of tier C are furnished with, so that ordinary work goes on in them: which
// toolchains of the machine they see, which caches they keep, which sealed names a kind of work may touch.
//
// Words: a profile is a TOML file. Some are shipped; the operator's own, in the directory profiles beside the
// configuration, replace those of the same name and are read again when they change. Resolving a profile gives what
// it and those it includes mean in one workspace, with the paths of its owner.
//
// Promises: nothing of anybody's home is visible but what a profile mounts by name, and that only read-only. Keys,
// credentials, histories, browser data, Palyra's own files, a whole home and the whole machine are never mounted,
// whatever a profile says. What can be written is a cache below Palyra's own directory, another one for each
// workspace and owner. Of git's configuration only a name, an address and two harmless settings come along. A
// profile that cannot be read stops all of them: it may have been the stricter one.
//
// What it does not do: it opens no network, it mounts nothing itself, and it does
// not decide whether a call may use a profile.
//
// Its words are those of docs/words.md.
package profile

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"palyra"
)

// Names of profiles that have a role of their own.
const (
	// Fallback is for commands that no profile names.
	Fallback = "dev"
	// Toolchains is the operator's file that 'palyra setup' writes.
	Toolchains = "toolchains"
)

// Config is what a Set needs.
type Config struct {
	Dir    string                          // of the operator's profiles; need not exist
	Caches string                          // below which caches are made; empty: there are none
	Home   func(uid int64) (string, error) // of a workspace's owner
}

// Set is all profiles there are. It is safe for concurrent use.
type Set struct {
	config  Config
	shipped map[string]*definition

	mu    sync.Mutex
	mark  string // what the operator's directory looked like
	known map[string]*definition
	err   error

	digests digests
}

// New reads the shipped profiles. The operator's are read when they are needed.
func New(c Config) (*Set, error) {
	if c.Home == nil {
		return nil, fmt.Errorf("profile: Home is missing")
	}
	for _, dir := range []string{c.Dir, c.Caches} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("profile: directory %q is not absolute", dir)
		}
	}
	s := &Set{config: c}
	var err error
	if s.shipped, err = loadShipped(); err != nil {
		return nil, err
	}
	return s, nil
}

// For names the profile for a command: the operator's before the shipped ones,
// a plain name before a pattern. A command that none names gets Fallback.
func (s *Set) For(command string) string {
	all, err := s.definitions()
	if err != nil {
		all = s.shipped // Resolve says what is wrong
	}
	base, best, rank := path.Base(command), Fallback, 0
	for _, d := range ordered(all) {
		if r := d.rankCommand(base); r > rank {
			best, rank = d.name, r
		}
	}
	return best
}

// Resolved is what a profile means in a workspace.
type Resolved struct {
	Name        string
	Mounts      []palyra.Mount
	Files       []palyra.RoomFile
	Seals       []string // all of them
	Env         []palyra.EnvVar
	Path        []string // before the usual ones
	Egress      []string
	UnixSockets bool
	Asks        bool
	Notes       []string
	Digest      palyra.Digest // of all the above but Notes
}

// Resolve says what a profile means in a workspace. It changes nothing: the
// sandbox makes the directories of caches when they are first needed.
func (s *Set) Resolve(name string, ws palyra.WorkspaceRef) (Resolved, error) {
	if !filepath.IsAbs(ws.Path) { // nothing could be told to overlap with it
		return Resolved{}, fmt.Errorf("profile: resolve: workspace %q is not an absolute path", ws.Path)
	}
	all, err := s.definitions()
	if err != nil {
		return Resolved{}, err
	}
	list, err := chain(all, name)
	if err != nil {
		return Resolved{}, err
	}
	b := builder{config: s.config, ws: ws, out: Resolved{Name: name}, env: map[string]string{}}
	if err := b.build(list); err != nil {
		return Resolved{}, err
	}
	if err := b.finish(); err != nil {
		return Resolved{}, err
	}
	return b.out, s.digests.bind(&b.out)
}

// chain lists a profile and all that it includes, these first, each once.
func chain(all map[string]*definition, name string) ([]*definition, error) {
	if name == palyra.NoProfile {
		return nil, nil
	}
	var out []*definition
	var visit func(name string, way []string) error
	visit = func(name string, way []string) error {
		name, optional := strings.CutSuffix(name, "?")
		d := all[name]
		switch {
		case d == nil && optional && len(way) > 0:
			return nil
		case d == nil && len(way) == 0:
			return unknown(all, name)
		case d == nil:
			return badProfile("the profile %s includes %s, which does not exist", way[len(way)-1], name).
				WithRemedy("correct %s; see 'palyra sandbox profiles'", all[way[len(way)-1]].source)
		case slices.Contains(way, name):
			return badProfile("the profile %s includes itself: %s", name, strings.Join(append(way, name), " → "))
		case slices.Contains(out, d):
			return nil
		}
		for _, in := range d.file.Includes {
			if err := visit(in, append(slices.Clip(way), name)); err != nil {
				return err
			}
		}
		out = append(out, d)
		return nil
	}
	err := visit(name, nil)
	return out, err
}

func unknown(all map[string]*definition, name string) error {
	var names []string
	for _, d := range ordered(all) {
		names = append(names, d.name)
	}
	slices.Sort(names)
	return palyra.Errorf(palyra.NotFound, palyra.ReasonBadProfile, "there is no profile %q", palyra.Clip(name, maxName)).
		WithRemedy("there are %s, and none for nothing at all; see 'palyra sandbox profiles'", strings.Join(names, ", "))
}

func badProfile(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonBadProfile, format, args...).WithRemedy("see 'palyra sandbox profiles'")
}

// Info describes a profile.
type Info struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Source      string   `json:"source"` // "shipped", or a file
	Commands    []string `json:"commands"`
	Includes    []string `json:"includes"`
	Mounts      []string `json:"mounts"`
	Caches      []string `json:"caches"`
	Env         []string `json:"env"` // names
	Path        []string `json:"path"`
	Egress      []string `json:"egress"`
	Seals       []string `json:"seals"`
	Unseal      []string `json:"unseal"`
	Files       []string `json:"files"`
	GitConfig   bool     `json:"git_config"`
	UnixSockets bool     `json:"unix_sockets"`
	Asks        bool     `json:"asks"`
}

// List describes all profiles, by name.
func (s *Set) List() ([]Info, error) {
	all, err := s.definitions()
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, d := range ordered(all) {
		out = append(out, d.info())
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
