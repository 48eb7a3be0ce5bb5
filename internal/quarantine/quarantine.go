// Package quarantine is a directory to which things were moved out of workspaces: for each call one with an index,
// which says in a line for each item what it was, and the items, each in a box that is closed to everybody. Paths
// and items are a stranger's. The whole is bounded: what is too large is not kept, and the oldest goes.
package quarantine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"palyra/internal/subpath"
)

// IndexName is the file in a quarantine that tells where its items come from.
const IndexName = "index.jsonl"

// Bounds of an index.
const (
	maxItems = 1_000_000
	maxLine  = 64 << 10
)

// Item is something that was moved to a quarantine: a line of its index.
type Item struct {
	Item string `json:"item"` // its name there
	Path string `json:"-"`    // where it was, relative to the workspace
	Mode uint32 `json:"mode"` // as it was there, with the type

	Bytes   int64  `json:"bytes"`             // that it takes on the disk; 0: not measured
	Removed bool   `json:"removed,omitempty"` // it was too large to be kept
	Digest  string `json:"digest,omitempty"`  // of one that was removed
	Hashed  int64  `json:"digest_bytes,omitempty"`
}

// line is an Item as it is written. A path that is not text is written as bytes.
type line struct {
	Item  string `json:"item"`
	Path  string `json:"path,omitempty"`
	Bytes []byte `json:"path_bytes,omitempty"`
	Mode  uint32 `json:"mode"`

	Size    int64  `json:"bytes,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Hashed  int64  `json:"digest_bytes,omitempty"`
}

// Line is an item as it stands in the index.
func (i Item) Line() ([]byte, error) {
	l := line{Item: i.Item, Path: i.Path, Mode: i.Mode, Size: i.Bytes, Removed: i.Removed, Digest: i.Digest, Hashed: i.Hashed}
	if !utf8.ValidString(i.Path) {
		l.Path, l.Bytes = "", []byte(i.Path)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("quarantine: index: %w", err)
	}
	return append(b, '\n'), nil
}

// ReadIndex reads the index of a quarantine.
func ReadIndex(r io.Reader) ([]Item, error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	var items []Item
	for s.Scan() {
		if len(items) == maxItems {
			return nil, errors.New("quarantine: index: too long")
		}
		var l line
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("quarantine: index: line %d: %w", len(items)+1, err)
		}
		if l.Bytes != nil && l.Path == "" {
			l.Path = string(l.Bytes)
		}
		if !subpath.PlainID(l.Item) || !Clean(l.Path) {
			return nil, fmt.Errorf("quarantine: index: line %d: item %q, path %q", len(items)+1, l.Item, l.Path)
		}
		items = append(items, Item{
			Item: l.Item, Path: l.Path, Mode: l.Mode, Bytes: max(l.Size, 0), Removed: l.Removed, Digest: l.Digest,
			Hashed: l.Hashed,
		})
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("quarantine: index: %w", err)
	}
	return items, nil
}

// maxPath is what one system call takes of a path below a workspace, with a name.
const maxPath = 4_256

// Clean reports whether path is a plain path below a workspace.
func Clean(path string) bool {
	return path != "" && len(path) <= maxPath && filepath.IsLocal(path) && filepath.Clean(path) == path && path != "." &&
		!strings.ContainsRune(path, 0)
}
