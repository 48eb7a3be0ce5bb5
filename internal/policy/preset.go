package policy

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"palyra"
)

// DefaultPreset is in force where nobody chose another bundle.
const DefaultPreset = "default"

// presets are the bundles that Palyra comes with. All but the default are the default with files replaced or added.
var presets = []string{DefaultPreset, "ask", "strict", "ci", "readonly"}

// presetWords say why a call that no policy permits does not run under a preset.
var presetWords = map[string]string{
	"readonly": "the preset readonly runs only what looks",
	"ci":       "under the preset ci nobody is asked, and only what looks, builds or writes in the workspace runs",
}

// Presets lists the names of the bundles that Palyra comes with.
func Presets() []string { return slices.Clone(presets) }

// Preset returns the files of a bundle that Palyra comes with, schema and all.
func Preset(name string) (map[string]string, error) {
	if !slices.Contains(presets, name) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "no preset is called %q", palyra.Clip(name, 64)).
			WithRemedy("there are %s", strings.Join(presets, ", "))
	}
	files := map[string]string{}
	for _, dir := range slices.Compact([]string{DefaultPreset, name}) {
		sub, err := fs.Sub(shipped, dir)
		if err != nil {
			return nil, fmt.Errorf("policy: preset: %w", err)
		}
		own, err := Read(sub)
		if err != nil {
			return nil, err
		}
		for file, text := range own {
			files[file] = text
		}
	}
	return files, nil
}

// PresetOf names the preset that has the digest; "" when none has.
func PresetOf(d palyra.Digest) string {
	for _, name := range presets {
		files, err := Preset(name)
		if err != nil {
			continue
		}
		if own, err := Sum(files); err == nil && own == d {
			return name
		}
	}
	return ""
}
