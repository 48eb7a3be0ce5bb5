package gitobject

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"

	"znkr.io/diff"
	"znkr.io/diff/textdiff"
)

// The bounds of what is looked at for one commit. Beyond them changes are not counted, and that is said.
const (
	maxObjects = 2000
	maxBytes   = 16 << 20
	maxBlob    = 1 << 20
	maxFiles   = 200
	maxDepth   = 64
)

// Fetch brings an object of a repository. What it brings is checked by its id.
type Fetch func(ctx context.Context, id string) (kind string, content []byte, err error)

// FileChange is a file that a commit changes.
type FileChange struct {
	Path    string `json:"path"`
	How     string `json:"how"`             // added, changed, removed, mode
	Added   int    `json:"added,omitempty"` // lines
	Removed int    `json:"removed,omitempty"`
	Binary  bool   `json:"binary,omitempty"` // or too large: its lines are not counted
}

// Diffstat is what a commit changes in its first parent's tree.
type Diffstat struct {
	Files   []FileChange `json:"files,omitempty"`
	Added   int          `json:"added"`
	Removed int          `json:"removed"`
	More    int          `json:"more,omitempty"`    // files beyond those listed
	Missing bool         `json:"missing,omitempty"` // not all was looked at: there may be more files
}

// SignRequest is everything that the signature of a commit or tag is for.
type SignRequest struct {
	Binding string   `json:"binding"`
	Promise string   `json:"promise"` // of the binding: what its key is, and where it goes
	Key     string   `json:"key"`     // its fingerprint
	Payload string   `json:"payload"` // the commit or tag, base64
	Digest  string   `json:"payload_digest"`
	Branch  string   `json:"branch,omitempty"` // that the commit certainly goes on; empty: none that is known
	Files   Diffstat `json:"files"`
}

// errBound is for what lies beyond the bounds, or was not brought as it should be.
var errBound = errors.New("beyond what is looked at")

type differ struct {
	ctx     context.Context
	fetch   Fetch
	objects int
	bytes   int
	out     Diffstat
}

// Compare says what a commit changes. It never fails: what cannot be looked at is missing, and said to be.
func Compare(ctx context.Context, o Object, fetch Fetch) Diffstat {
	d := &differ{ctx: ctx, fetch: fetch}
	base := ""
	if len(o.Parents) > 0 {
		content, err := d.get(o.Parents[0], KindCommit)
		line, _, _ := strings.Cut(string(content), "\n")
		if base = strings.TrimPrefix(line, "tree "); err != nil || !validID.MatchString(base) || len(base) != len(o.Tree) {
			d.out.Missing = true
			return d.out
		}
	}
	if err := d.trees(base, o.Tree, "", 0); err != nil {
		d.out.Missing = true
	}
	return d.out
}

// get brings an object and checks that it is the one that was asked for.
func (d *differ) get(id, kind string) ([]byte, error) {
	if d.objects++; d.objects > maxObjects || d.bytes > maxBytes || d.ctx.Err() != nil {
		return nil, errBound
	}
	is, content, err := d.fetch(d.ctx, id)
	if err != nil || is != kind || ID(kind, content, id) != id {
		return nil, errBound
	}
	d.bytes += len(content)
	return content, nil
}

type treeEntry struct{ mode, id string }

func (e treeEntry) isTree() bool { return e.mode == "40000" }

// tree reads a tree; "" is the empty one. Names are unique, and none leads elsewhere.
func (d *differ) tree(id string) (map[string]treeEntry, error) {
	if id == "" {
		return nil, nil
	}
	raw, err := d.get(id, KindTree)
	if err != nil {
		return nil, err
	}
	all := map[string]treeEntry{}
	for n := len(id) / 2; len(raw) > 0; {
		head, rest, ok := bytes.Cut(raw, []byte{0})
		mode, name, two := strings.Cut(string(head), " ")
		if !ok || !two || len(rest) < n || name == "" || strings.Contains(name, "/") {
			return nil, errBound
		}
		if _, again := all[name]; again {
			return nil, errBound
		}
		all[name] = treeEntry{mode, hex.EncodeToString(rest[:n])}
		raw = rest[n:]
	}
	return all, nil
}

// trees adds what is different in two trees.
func (d *differ) trees(was, now, at string, depth int) error {
	if was == now {
		return nil
	}
	if depth > maxDepth {
		return errBound
	}
	before, err := d.tree(was)
	if err != nil {
		return err
	}
	after, err := d.tree(now)
	if err != nil {
		return err
	}
	for _, name := range names(before, after) {
		if err := d.entries(before[name], after[name], path.Join(at, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// entries adds what is different at one path.
func (d *differ) entries(was, now treeEntry, at string, depth int) error {
	if was == now {
		return nil
	}
	wasTree, nowTree := "", ""
	if was.isTree() {
		wasTree, was = was.id, treeEntry{}
	}
	if now.isTree() {
		nowTree, now = now.id, treeEntry{}
	}
	if wasTree != "" || nowTree != "" {
		if err := d.trees(wasTree, nowTree, at, depth+1); err != nil {
			return err
		}
	}
	if was == now {
		return nil
	}
	d.file(was, now, at)
	return nil
}

// file adds one file.
func (d *differ) file(was, now treeEntry, at string) {
	if len(d.out.Files) == maxFiles {
		d.out.More++
		return
	}
	f := FileChange{Path: at, How: "changed"}
	switch {
	case was.id == "":
		f.How = "added"
	case now.id == "":
		f.How = "removed"
	case was.id == now.id:
		f.How = "mode"
	}
	if was.id != now.id {
		before, ok1 := d.lines(was)
		after, ok2 := d.lines(now)
		if f.Binary = !ok1 || !ok2; !f.Binary {
			f.Added, f.Removed = count(before, after)
		}
	}
	d.out.Files = append(d.out.Files, f)
	d.out.Added += f.Added
	d.out.Removed += f.Removed
}

// lines brings the text of a file; false: it is none whose lines are counted.
func (d *differ) lines(e treeEntry) (string, bool) {
	if e.id == "" {
		return "", true
	}
	if e.mode == "160000" { // a submodule's commit
		return "", false
	}
	content, err := d.get(e.id, KindBlob)
	if err != nil || len(content) > maxBlob || bytes.IndexByte(content, 0) >= 0 {
		return "", false
	}
	return string(content), true
}

// count counts the lines that were added and removed.
func count(before, after string) (added, removed int) {
	switch {
	case before == "":
		return lineCount(after), 0
	case after == "":
		return 0, lineCount(before)
	}
	for _, e := range textdiff.Edits(before, after, diff.Fast()) {
		switch e.Op {
		case diff.Insert:
			added++
		case diff.Delete:
			removed++
		}
	}
	return added, removed
}

func lineCount(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// names are those of both trees, in order.
func names(a, b map[string]treeEntry) []string {
	all := make([]string, 0, len(a)+len(b))
	for n := range a {
		all = append(all, n)
	}
	for n := range b {
		if _, both := a[n]; !both {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}
