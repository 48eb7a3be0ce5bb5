// Package bundle handles policies without a daemon: it writes out the bundles that come with
// Palyra, and reads a directory that is to be checked or applied. It judges nothing.
package bundle

import (
	"os"

	"palyra"
	"palyra/internal/policy"
)

// MaxBytes is the largest bundle that can be sent to a daemon.
const MaxBytes = 900 << 10

// Presets lists the names of the bundles that Palyra comes with, the default first.
func Presets() []string { return policy.Presets() }

// Preset returns the files of such a bundle by name.
func Preset(name string) (map[string]string, error) { return policy.Preset(name) }

// Read returns the files of the bundle in a directory by name: *.cedar, the schema, entities.json and tests/*.yaml.
// It ignores other files, except that a name which looks like a misspelt one of these is an error.
func Read(dir string) (map[string]string, error) {
	files, err := policy.Read(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	total := 0
	for name, text := range files {
		total += len(name) + len(text)
	}
	if total > MaxBytes {
		return nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "the bundle has %d bytes and at most %d can be sent", total,
			MaxBytes).
			WithRemedy("give the directory as policy.dir in the daemon's configuration")
	}
	return files, nil
}
