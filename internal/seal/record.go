package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/quarantine"
	"palyra/internal/seal/sealname"
)

const (
	recordVersion = 2
	firstVersion  = 1 // without unmatched links, rebases and heeded files
	maxRecord     = 64 << 20
)

// document is the stored form of a Snapshot. Paths are bytes: names of files need not be text.
type document struct {
	Version   int              `json:"version"`
	Workspace []byte           `json:"workspace"`
	Dev       uint64           `json:"dev"`
	Ino       uint64           `json:"ino"`
	Entries   int              `json:"max_entries"`
	Sealed    int              `json:"max_sealed"`
	Closed    []byte           `json:"closed,omitempty"` // a single directory, of older records; only read
	Shut      [][]byte         `json:"closed_dirs,omitempty"`
	Kept      int64            `json:"kept_bytes,omitempty"`
	Names     []string         `json:"names"`
	Start     []sealname.Place `json:"start,omitempty"` // state of the names at the workspace
	Leads     []lead           `json:"leads,omitempty"`
	Bare      [][]byte         `json:"bare,omitempty"` // directories below node_modules in which every name counts
	Paths     []item           `json:"paths"`
}

// lead is the stored form of an anchor.
type lead struct {
	Path []byte `json:"path"`
	Rule int    `json:"rule"`
	Seg  int    `json:"part"`
}

type item struct {
	Path  []byte `json:"path"`
	Kind  kind   `json:"kind"`
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Mode  uint32 `json:"mode"`
	Links uint32 `json:"links"`
	Size  uint64 `json:"size"`
	MSec  int64  `json:"mtime"`
	MNsec uint32 `json:"mtime_ns"`
	CSec  int64  `json:"ctime"`
	CNsec uint32 `json:"ctime_ns"`
	BSec  int64  `json:"btime,omitempty"`
	BNsec uint32 `json:"btime_ns,omitempty"`
	Text  []byte `json:"text,omitempty"`
}

func (s *Snapshot) record() ([]byte, error) {
	d := document{
		Version: recordVersion, Workspace: []byte(s.workspace), Dev: s.root.dev, Ino: s.root.ino,
		Entries: s.limits.Entries, Sealed: s.limits.Sealed, Kept: s.limits.Kept, Names: s.match.Names(), Start: s.start,
		Paths: make([]item, 0, len(s.entries)),
	}
	if s.old {
		d.Version = firstVersion
	}
	for _, a := range s.match.Held() {
		d.Leads = append(d.Leads, lead{[]byte(a.Path), a.Rule, a.Seg})
	}
	for _, p := range slices.Sorted(maps.Keys(s.bare)) {
		d.Bare = append(d.Bare, []byte(p))
	}
	for _, dir := range s.limits.Closed {
		d.Shut = append(d.Shut, []byte(dir))
	}
	for _, e := range s.entries {
		if o, odd := s.odd[e.path]; odd {
			if o.kind == 0 {
				continue
			}
			e = o
		}
		d.Paths = append(d.Paths, item{
			Path: []byte(e.path), Kind: e.kind, Dev: e.id.dev, Ino: e.id.ino, Mode: e.mode, Links: e.links, Size: e.size,
			MSec: e.mtime.sec, MNsec: e.mtime.nsec, CSec: e.ctime.sec, CNsec: e.ctime.nsec, BSec: e.born.sec, BNsec: e.born.nsec, Text: e.text,
		})
	}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("seal: record: %w", err)
	}
	if len(b) > maxRecord {
		return nil, denied("the record of the sealed paths is larger than %d MiB", maxRecord>>20).
			WithRemedy("use a workspace with fewer files below sealed directories")
	}
	return b, nil
}

func load(b []byte) (*Snapshot, error) {
	if len(b) > maxRecord {
		return nil, errors.New("seal: load: too long")
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("seal: load: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("seal: load: more than one document")
	}
	workspace := string(d.Workspace)
	switch {
	case d.Version != recordVersion && d.Version != firstVersion:
		return nil, fmt.Errorf("seal: load: version %d", d.Version)
	case !filepath.IsAbs(workspace) || filepath.Clean(workspace) != workspace || strings.ContainsRune(workspace, 0):
		return nil, fmt.Errorf("seal: load: workspace %q", workspace)
	}
	m, err := Compile(d.Names)
	if err != nil {
		return nil, fmt.Errorf("seal: load: %w", err)
	}
	for _, p := range d.Start {
		if p.Seg == 0 || !m.Has(int(p.Rule), int(p.Seg)) {
			return nil, fmt.Errorf("seal: load: name %d has no part %d", p.Rule, p.Seg)
		}
	}
	if err := loadLeads(m, d.Leads); err != nil {
		return nil, err
	}
	s := &Snapshot{
		old: d.Version == firstVersion, start: m.Places(m.Number(d.Start)), workspace: workspace, root: ident{d.Dev, d.Ino}, match: m,
		limits:  Limits{Entries: d.Entries, Sealed: d.Sealed, Closed: d.closed(), Kept: max(d.Kept, 0)}.filled(),
		entries: make([]watchedPath, 0, len(d.Paths)),
	}
	for _, p := range d.Bare {
		if s.bare == nil {
			s.bare = map[string]bool{}
		}
		s.bare[string(p)] = true
	}
	seen := make(map[string]bool, len(d.Paths))
	for _, i := range d.Paths {
		path := string(i.Path)
		if !(quarantine.Clean(path) || path == "." && i.Kind == kept) || seen[path] || i.Kind < sealed ||
			i.Kind > shut && i.Kind != link && i.Kind != midway && i.Kind != noted {
			return nil, fmt.Errorf("seal: load: path %q", path)
		}
		seen[path] = true
		s.entries = append(s.entries, watchedPath{
			path: path, kind: i.Kind, id: ident{i.Dev, i.Ino}, mode: i.Mode, links: i.Links, size: i.Size,
			mtime: stamp{i.MSec, i.MNsec}, ctime: stamp{i.CSec, i.CNsec}, born: stamp{i.BSec, i.BNsec}, text: i.Text,
		})
	}
	return s, nil
}

// closed returns the directories to which no link may lead.
func (d *document) closed() (dirs []string) {
	for _, dir := range append([][]byte{d.Closed}, d.Shut...) {
		if len(dir) > 0 {
			dirs = append(dirs, string(dir))
		}
	}
	return dirs
}

// loadLeads restores anchors.
func loadLeads(m *Matcher, list []lead) error {
	names := len(m.Names())
	for _, l := range list {
		if !quarantine.Clean(string(l.Path)) || len(list) > sealname.MaxAnchors || l.Rule < -1 || l.Rule >= names ||
			l.Rule >= 0 && !m.Has(l.Rule, l.Seg) {
			return fmt.Errorf("seal: load: %q cannot be led to", l.Path)
		}
		m.Add(sealname.Anchor{Path: string(l.Path), Rule: l.Rule, Seg: l.Seg})
	}
	return nil
}
