// Package scaffold has what a new skill begins with, in each language: a manifest, a README and a tool that works.
package scaffold

import (
	"bytes"
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"

	"palyra"
	"palyra/internal/skill"
)

//go:embed all:go all:c
var files embed.FS

// Languages are those that there is a beginning in.
func Languages() []string { return []string{"go", "c"} }

// Values are what the beginnings are filled with.
type Values struct{ ID, Publisher string }

// Files returns the files of a new skill by their paths.
func Files(language string, v Values) (map[string][]byte, error) {
	switch {
	case !slices.Contains(Languages(), language):
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "there is no beginning in %q", palyra.Clip(language, 32)).
			WithRemedy("choose one of: %s", strings.Join(Languages(), ", "))
	case !skill.ValidID(v.ID):
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q cannot be the id of a skill", palyra.Clip(v.ID, 64)).
			WithRemedy("use 1 to 40 characters out of a-z, 0-9 and '-', which neither begins nor ends it; none that begins with palyra")
	case !skill.ValidID(v.Publisher):
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q cannot be the name of a publisher",
			palyra.Clip(v.Publisher, 64)).
			WithRemedy("give one with --publisher, of the same form as the id")
	}
	out := map[string][]byte{}
	of, err := fs.Sub(files, language)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(of, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(of, name)
		if err != nil {
			return err
		}
		t, err := template.New(path.Base(name)).Delims("[[[", "]]]").Parse(string(raw))
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, v); err != nil {
			return err
		}
		out[strings.TrimSuffix(name, ".tmpl")] = text.Bytes()
		return nil
	})
	return out, err
}
