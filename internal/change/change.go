// Package change says what is different at paths of a tree: what was there, and what is.
//
// Promises. A path that is removed and made again is one change, or none. A file whose content nobody read counts as
// different. Paths and targets of links are bytes, and come through JSON as they are.
package change

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Change is one path of the workspace that is another one after a run.
type Change struct {
	Path string // below the workspace; bytes, not text
	Was  State
	Now  State
}

// State is what is at a path.
type State struct {
	Kind   Kind
	Mode   uint32 // permissions, and of directories the sticky and group bits
	Size   int64  // of a file
	Digest string // of a file's content: "sha256:" and hex; empty: its owner may not read it, or there is more than is read
	Target string // of a symbolic link; bytes, not text
}

// plainState is a State as JSON has it: targets of links are bytes.
type plainState struct {
	Kind   Kind   `json:"kind,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Digest string `json:"digest,omitempty"`
	Target []byte `json:"target,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(plainState{s.Kind, s.Mode, s.Size, s.Digest, []byte(s.Target)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *State) UnmarshalJSON(text []byte) error {
	var p plainState
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*s = State{p.Kind, p.Mode, p.Size, p.Digest, string(p.Target)}
	return nil
}

// Kind is what sort of thing is at a path.
type Kind string

// The kinds of things. Sockets and devices are never kept, but may be removed.
const (
	Nothing   Kind = ""
	File      Kind = "file"
	Directory Kind = "dir"
	Link      Kind = "link"
	Pipe      Kind = "pipe"
	Socket    Kind = "socket"
	Device    Kind = "device"
)

// Set collects what was and what is, by path. A path that is removed and made
// again is one change, or none. The zero Set is empty.
type Set struct{ was, now map[string]State }

// Removed notes what was at a path.
func (c *Set) Removed(path string, s State) {
	if c.was == nil {
		c.was = map[string]State{}
	}
	c.was[path] = s
}

// Made notes what is at a path.
func (c *Set) Made(path string, s State) {
	if c.now == nil {
		c.now = map[string]State{}
	}
	c.now[path] = s
}

// Read adds the digest of a file that was noted.
func (c *Set) Read(path string, before bool, digest string) {
	of := c.now
	if before {
		of = c.was
	}
	if s, noted := of[path]; noted && s.Kind == File {
		s.Digest = digest
		of[path] = s
	}
}

// Forget leaves out what was made at a path.
func (c *Set) Forget(path string) { delete(c.now, path) }

// Drop leaves out a path.
func (c *Set) Drop(path string) {
	delete(c.was, path)
	delete(c.now, path)
}

// List returns the changes by path.
func (c *Set) List() []Change {
	paths := slices.AppendSeq(make([]string, 0, len(c.was)+len(c.now)), maps.Keys(c.now))
	for p := range c.was {
		if _, too := c.now[p]; !too {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	out := make([]Change, 0, len(paths))
	for _, p := range paths {
		if was, now := c.was[p], c.now[p]; was != now || was.Kind == File && was.Digest == "" { // nobody knows whether it is the same
			out = append(out, Change{p, was, now})
		}
	}
	return out
}

// MostTold bounds lists of paths for people.
const MostTold = 64

// AppendShort adds to a list for people while it is short.
func AppendShort(list []string, what string) []string {
	if len(list) < MostTold {
		return append(list, what)
	}
	return list
}

// Quoted is a path for people and records: bytes that are no text are escaped.
func Quoted(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` {
		return q
	}
	return path
}
