package preimage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/subpath"
)

// The bounds of a manifest: changes at the longest paths that are kept.
const (
	mostManifest = 256 << 20
	mostPath     = 4_000
)

// Read returns what is remembered under a name.
func (p *Store) Read(name string) (Manifest, error) { return p.read(name, false) }

// Head is Read without the changes, of which there may be many.
func (p *Store) Head(name string) (Manifest, error) { return p.read(name, true) }

func (p *Store) read(name string, head bool) (Manifest, error) {
	if !subpath.PlainID(name) {
		return Manifest{}, fmt.Errorf("preimage: %q is no name", name)
	}
	fd, err := beneath.OpenAt2(p.Dir(), name+"/"+ManifestName, unix.O_RDONLY|unix.O_NOFOLLOW, beneath.Resolve)
	if err != nil {
		return Manifest{}, fmt.Errorf("preimage: %w", err)
	}
	f := os.NewFile(uintptr(fd), ManifestName)
	defer func() { _ = f.Close() }()
	m, err := ReadManifest(f, head)
	if err != nil {
		return Manifest{}, fmt.Errorf("preimage: %s: %w", name, err)
	}
	return m, nil
}

// ReadManifest reads what was written down, one change after the other: the text of many is
// several times as large as they are.
func ReadManifest(r io.Reader, head bool) (m Manifest, err error) {
	limited := &io.LimitedReader{R: r, N: mostManifest + 1}
	dec := json.NewDecoder(limited)
	if err := delim(dec, '{'); err != nil {
		return m, err
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return m, err
		}
		if key != "changes" {
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return m, err
			}
			fields[fmt.Sprint(key)] = value
			continue
		}
		if head {
			break
		}
		if err := m.readChanges(dec); err != nil {
			return m, err
		}
	}
	if limited.N <= 0 {
		return m, fmt.Errorf("a list of over %d bytes", mostManifest)
	}
	if !head {
		if err := delim(dec, '}'); err != nil {
			return m, err
		}
	}
	return m, m.fill(fields)
}

// fill puts all but the changes into a manifest.
func (m *Manifest) fill(fields map[string]json.RawMessage) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	all := m.Changes
	if err := json.Unmarshal(text, m); err != nil {
		return err
	}
	if m.Changes = all; m.Version != 1 {
		return fmt.Errorf("version %d", m.Version)
	}
	return nil
}

// readChanges reads the list, which is in the order of names and leads nowhere else.
func (m *Manifest) readChanges(dec *json.Decoder) error {
	if err := delim(dec, '['); err != nil {
		return err
	}
	m.Changes = nil
	last := ""
	for dec.More() {
		var c Replacement
		if err := dec.Decode(&c); err != nil {
			return err
		}
		path := string(c.Path)
		first := len(m.Changes) == 0
		rest := strings.TrimPrefix(string(c.Rest), "/") // empty: it is what the step took
		if !first && path <= last || !beneath.Leads(path, mostPath) || !beneath.Leads(rest, mostPath) {
			return fmt.Errorf("%s is no path, or not in its place", change.Quoted(path))
		}
		m.Changes, last = append(m.Changes, c), path
	}
	return delim(dec, ']')
}

// delim reads a bracket.
func delim(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	if err == nil && t != want {
		err = errors.New("no list of changes")
	}
	return err
}
