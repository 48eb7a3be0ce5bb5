package profile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"palyra"
	"palyra/internal/durable"
)

// Furnishing is a profile that a command writes for one program.
type Furnishing struct {
	Name        string
	Description string
	By          string // the command that writes it
	Includes    []string
	Mounts      []string // directories that are visible, read-only
	Caches      []Kept
	Files       []Small
}

// Kept is a directory that outlives runs, of the workspace's own.
type Kept struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"` // "": below the cache of the room's home
	Env    string `json:"env,omitempty"`    // the variable that leads the program there
}

// Small is a small file of the room.
type Small struct {
	Target string `json:"target"`
	Text   string `json:"text"`
}

// furnished is its document.
type furnished struct {
	Description string      `toml:"description"`
	Includes    []string    `toml:"includes,omitempty"`
	Mounts      []mountOnly `toml:"mounts,omitempty"`
	Caches      []keptEntry `toml:"caches,omitempty"`
	Files       []fileEntry `toml:"files,omitempty"`
}

type mountOnly struct {
	Source string `toml:"source"`
}

type keptEntry struct {
	Name   string `toml:"name"`
	Target string `toml:"target,omitempty"`
	Env    string `toml:"env,omitempty"`
}

// Mark begins the document of a profile that a command wrote: one that begins otherwise is the operator's own.
func (f Furnishing) Mark() string {
	return "# Written by '" + f.By + "', which replaces it. Take this line away to keep it as you change it.\n"
}

// Document is the text of the profile. Equal furnishings give equal documents.
func (f Furnishing) Document() ([]byte, error) {
	d := furnished{Description: f.Description, Includes: f.Includes}
	for _, m := range f.Mounts {
		d.Mounts = append(d.Mounts, mountOnly{m})
	}
	for _, c := range f.Caches {
		d.Caches = append(d.Caches, keptEntry(c))
	}
	for _, s := range f.Files {
		d.Files = append(d.Files, fileEntry(s))
	}
	var b bytes.Buffer
	b.WriteString(f.Mark() + "\n")
	if err := toml.NewEncoder(&b).Encode(d); err != nil {
		return nil, fmt.Errorf("profile: document: %w", err)
	}
	if _, err := parse(f.Name, "what was made", b.Bytes()); err != nil {
		return nil, errors.Join(errors.New("profile: document"), err)
	}
	return b.Bytes(), nil
}

// Save writes a profile that no other user can change.
func Save(path string, text []byte) error {
	dir := filepath.Dir(path)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = durable.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "cannot write %s: %v", path, err).WithRemedy("let yourself write to %s", dir)
	}
	return nil
}
