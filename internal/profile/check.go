package profile

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/seal"
)

// Flaw is something that is wrong with the operator's profiles.
type Flaw struct {
	Path string // of the file, or of the directory
	Line int    // 0: not known, or not about one
	Text string
}

// Where is the place, as compilers name it.
func (f Flaw) Where() string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return f.Path
}

// Check names everything that is wrong with the profiles of a directory, where a
// Set stops at the first. A directory that does not exist is fine.
func Check(dir string) []Flaw {
	s := &Set{config: Config{Dir: dir}}
	var err error
	if s.shipped, err = loadShipped(); err != nil {
		return []Flaw{flawOf(dir, err)}
	}
	names, _, err := s.listOwnFiles()
	if err != nil {
		return []Flaw{flawOf(dir, err)}
	}
	if len(names) == 0 {
		return nil
	}
	if why := unsafeToTrust(dir); why != "" {
		return []Flaw{flawOf(dir, notOurs(dir, why))}
	}
	var out []Flaw
	all, own := maps.Clone(s.shipped), []*definition{}
	for _, n := range names {
		d := &definition{name: strings.TrimSuffix(n, suffix), source: filepath.Join(dir, n)}
		raw, err := read(d.source)
		if err != nil {
			out = append(out, flawOf(d.source, err))
			continue
		}
		if line, why := d.read(raw); why != "" {
			out = append(out, Flaw{d.source, line, why})
			continue
		}
		all[d.name] = d
		own = append(own, d)
	}
	if len(out) > 0 {
		return out // a profile that includes a bad one is not to blame
	}
	return append(out, includes(all, own)...)
}

// includes names the operator's profiles that include something impossible.
func includes(all map[string]*definition, own []*definition) (out []Flaw) {
	for _, d := range own {
		list, err := chain(all, d.name)
		if err != nil {
			out = append(out, flawOf(d.source, err))
			continue
		}
		seals := slices.Clone(seal.Default)
		for _, part := range list {
			seals = append(seals, part.file.Seals...)
		}
		for _, name := range d.file.Unseal {
			if !slices.Contains(seals, name) {
				out = append(out, Flaw{Path: d.source, Text: fmt.Sprintf("it unseals %q, which is not sealed", name)})
			}
		}
	}
	return out
}

func flawOf(path string, err error) Flaw {
	e := palyra.AsError(err)
	text := e.Text
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return Flaw{Path: path, Text: text}
}
