package profile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/seal"
	"palyra/internal/subpath"
)

// Bounds of a profile.
const (
	maxFile  = 256 << 10
	maxName  = 64
	maxList  = 256 // entries of any list
	maxText  = 4 << 10
	maxFiles = 64 << 10 // bytes of one generated file
)

// file is a profile as it is written.
type file struct {
	Description string            `toml:"description"`
	Commands    []string          `toml:"commands"`
	Includes    []string          `toml:"includes"`
	Mounts      []mountEntry      `toml:"mounts"`
	Caches      []cacheEntry      `toml:"caches"`
	Env         map[string]string `toml:"env"`
	Path        []string          `toml:"path"`
	Egress      []string          `toml:"egress"`
	Seals       []string          `toml:"seals"`
	Unseal      []string          `toml:"unseal"`
	UnixSockets bool              `toml:"unix_sockets"`
	Asks        bool              `toml:"asks"`
	Files       []fileEntry       `toml:"files"`
	GitConfig   bool              `toml:"git_config"`
}

// mountEntry is a path of the machine that is visible, read-only.
type mountEntry struct {
	Source   string `toml:"source"`
	Target   string `toml:"target,omitempty"` // the same path when empty
	Optional bool   `toml:"optional,omitempty"`
}

// cacheEntry is a directory of the workspace's own that outlives runs.
type cacheEntry struct {
	Name   string `toml:"name"`
	Target string `toml:"target"` // below .cache of the room's home when empty
	Env    string `toml:"env"`    // the variable that leads programs there
}

// fileEntry is a small file of the room.
type fileEntry struct {
	Target string `toml:"target"`
	Text   string `toml:"text"`
}

// definition is a profile that was read.
type definition struct {
	name   string
	source string // "shipped", or where the file is
	own    bool   // the operator's
	file   file
}

// parse reads and checks a profile.
func parse(name, source string, raw []byte) (*definition, error) {
	d := &definition{name: name, source: source}
	line, why := d.read(raw)
	if why == "" {
		return d, nil
	}
	if line > 0 {
		why = fmt.Sprintf("line %d: %s", line, why)
	}
	return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonBadProfile, "the profile %s (%s) cannot be used: %s", palyra.Clip(name, maxName),
		source, why).
		WithRemedy("correct the file, or remove it; until then no profile can be used. 'palyra config check' names all that is wrong")
}

// read takes in the text of a profile. It returns what is wrong with it, and the line if that is known.
func (d *definition) read(raw []byte) (line int, why string) {
	switch {
	case !plainName(d.name) || d.name == palyra.NoProfile:
		return 0, fmt.Sprintf("its name must be of small letters, digits and dashes, and not %q", palyra.NoProfile)
	case len(raw) > maxFile:
		return 0, fmt.Sprintf("it is larger than %d KiB", maxFile>>10)
	case !utf8.Valid(raw):
		return 0, "it is not UTF-8 text"
	}
	dec := toml.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d.file); err != nil {
		return explain(err)
	}
	return 0, d.file.check()
}

// explain says where a document is wrong.
func explain(err error) (line int, why string) {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		row, _ := e.Position()
		return row, "there is no key " + strings.Join(e.Key(), ".")
	}
	var decode *toml.DecodeError
	if errors.As(err, &decode) {
		row, column := decode.Position()
		return row, fmt.Sprintf("column %d: %s", column, strings.TrimPrefix(decode.Error(), "toml: "))
	}
	return 0, err.Error()
}

// check returns what is wrong with the values, or nothing.
func (f *file) check() string {
	for what, list := range map[string][]string{
		"commands": f.Commands, "includes": f.Includes, "path": f.Path, "egress": f.Egress, "seals": f.Seals, "unseal": f.Unseal,
		"description": {f.Description},
	} {
		if len(list) > maxList {
			return fmt.Sprintf("%s has more than %d entries", what, maxList)
		}
		for _, v := range list {
			if len(v) > maxText || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' }) || (v == "" && what != "description") {
				return fmt.Sprintf("%s has an entry that is empty, too long or has control characters", what)
			}
		}
	}
	if len(f.Mounts) > maxList || len(f.Caches) > maxList || len(f.Env) > maxList || len(f.Files) > maxList {
		return fmt.Sprintf("it has more than %d mounts, caches, variables or files", maxList)
	}
	for _, check := range []func() string{f.checkNames, f.checkPlaces, f.checkEnv} {
		if why := check(); why != "" {
			return why
		}
	}
	return ""
}

// checkNames looks at commands, includes and sealed names.
func (f *file) checkNames() string {
	for _, c := range f.Commands {
		if _, err := path.Match(c, "x"); err != nil || strings.Contains(c, "/") {
			return fmt.Sprintf("the command %q is no plain name or pattern", c)
		}
	}
	for _, i := range f.Includes {
		if !plainName(strings.TrimSuffix(i, "?")) {
			return fmt.Sprintf("it includes %q, which cannot be a profile", i)
		}
	}
	for _, names := range [][]string{f.Seals, f.Unseal} {
		if _, err := seal.Compile(names); err != nil {
			return palyra.AsError(err).Text
		}
	}
	return ""
}

// checkPlaces looks at everything that has a path.
func (f *file) checkPlaces() string {
	for _, m := range f.Mounts {
		if !isPlace(m.Source) || (m.Target != "" && !isPlace(m.Target)) {
			return fmt.Sprintf("the mount of %q at %q needs whole paths, or such that begin with ~/", m.Source, m.Target)
		}
	}
	for _, p := range f.Path {
		if !isPlace(p) || strings.Contains(p, ":") {
			return fmt.Sprintf("%q in path is no whole path, nor one that begins with ~/", p)
		}
	}
	for _, c := range f.Caches {
		if !plainName(c.Name) || (c.Target != "" && (!isCleanAbs(c.Target) || !subpath.Below(cell.RoomHome, c.Target))) {
			return fmt.Sprintf("the cache %q needs a plain name, and %q as its target must be below %s", c.Name, c.Target, cell.RoomHome)
		}
		if c.Env != "" && !envName(c.Env) {
			return fmt.Sprintf("the cache %q cannot set the variable %q", c.Name, c.Env)
		}
	}
	for _, x := range f.Files {
		if !isCleanAbs(x.Target) || len(x.Text) > maxFiles || strings.ContainsRune(x.Text, 0) {
			return fmt.Sprintf("the file %q needs a whole path and at most %d KiB of text", x.Target, maxFiles>>10)
		}
	}
	return ""
}

func (f *file) checkEnv() string {
	for name, value := range f.Env {
		if !envName(name) || len(value) > maxText || strings.ContainsRune(value, 0) {
			return fmt.Sprintf("the variable %q cannot be set so", name)
		}
	}
	return ""
}

// plainName reports whether s can be the name of a profile or a cache.
func plainName(s string) bool {
	for i, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' && i > 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// envName reports whether a profile may set a variable of the name. The room sets a few itself.
func envName(s string) bool {
	if slices.Contains([]string{"PATH", "HOME", "TMPDIR", "PWD", "USER", "LOGNAME", "SHELL"}, s) || strings.HasPrefix(s, "PALYRA_") {
		return false
	}
	for i, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || '0' <= c && c <= '9' && i > 0) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// isCleanAbs reports whether p is an absolute, clean path other than the root.
func isCleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && len(p) < maxText && !strings.ContainsRune(p, 0)
}

// isPlace reports whether p is such a path, or one below a home.
func isPlace(p string) bool {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return isCleanAbs("/" + rest)
	}
	return isCleanAbs(p)
}

// rankCommand ranks how well a profile fits a command: the operator's profiles rank higher, and so do plain names.
func (d *definition) rankCommand(command string) int {
	rank := 0
	for _, c := range d.file.Commands {
		if c == command {
			rank = max(rank, 2)
		} else if ok, _ := path.Match(c, command); ok {
			rank = max(rank, 1)
		}
	}
	if rank > 0 && d.own {
		rank += 2
	}
	return rank
}

// ordered lists profiles by name.
func ordered(all map[string]*definition) []*definition {
	var out []*definition
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}

func (d *definition) info() Info {
	f := d.file
	i := Info{
		Name: d.name, Description: f.Description, Source: d.source, Commands: notNil(f.Commands), Includes: notNil(f.Includes),
		Path: notNil(f.Path), Egress: notNil(f.Egress),
		Seals: notNil(f.Seals), Unseal: notNil(f.Unseal), Env: notNil(slices.Sorted(maps.Keys(f.Env))), Mounts: []string{}, Caches: []string{},
		Files:     []string{},
		GitConfig: f.GitConfig, UnixSockets: f.UnixSockets, Asks: f.Asks,
	}
	for _, m := range f.Mounts {
		i.Mounts = append(i.Mounts, m.Source)
	}
	for _, c := range f.Caches {
		i.Caches = append(i.Caches, c.Name)
	}
	for _, x := range f.Files {
		i.Files = append(i.Files, x.Target)
	}
	return i
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
