package dotenv

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"

	"palyra/internal/durable"
	"palyra/internal/subpath"
)

// Masks says for every workspace what is masked there, and finds it.
type Masks struct {
	Key   []byte
	Names Names
	Off   []string // directories in which nothing is masked, and below which; "/" is everywhere
	Known func(workspace, name string, value []byte) (placeholder string, ok bool)

	finder Finder
}

// NewMasks returns what an operator wants masked, without a key: also files of these names, in none of these workspaces, or nowhere.
func NewMasks(names, unmasked []string, off bool) (*Masks, error) {
	n, err := NewNames(names)
	if err != nil {
		return nil, err
	}
	m := &Masks{Names: n, Off: unmasked}
	if off {
		m.Off = []string{"/"}
	}
	return m, nil
}

// On reports whether files of a workspace are masked. Without Masks nothing is.
func (m *Masks) On(workspace string) bool {
	return supported && m != nil && !slices.ContainsFunc(m.Off, func(dir string) bool { return subpath.Within(dir, workspace) })
}

// Find finds the files of a workspace that are masked.
func (m *Masks) Find(ctx context.Context, w SearchDir) ([]string, error) {
	return m.finder.Find(ctx, w, m.Names)
}

// In returns the masker of a workspace.
func (m *Masks) In(workspace string) Masker {
	out := Masker{Key: m.Key, Workspace: workspace}
	if m.Known != nil {
		out.Known = func(name string, value []byte) (string, bool) { return m.Known(workspace, name, value) }
	}
	return out
}

// ShowValues says how the values are shown.
const ShowValues = "dotenv.unmasked in the configuration lists the workspaces in which values are shown"

// ErrMoved means that files came, went or were replaced while they were looked for.
var ErrMoved = errors.New("dotenv: the files are others now")

// Why says for people why the files of a workspace cannot be masked.
func Why(err error) string {
	if bound := (*BoundError)(nil); errors.As(err, &bound) {
		what := "the workspace"
		if bound.Path != "" {
			what = strconv.Quote(bound.Path)
		}
		return "files like .env cannot be masked: " + what + ": " + bound.Why
	}
	return "which files of the workspace are like .env, and to be masked, cannot be told"
}

// Found is a file that is masked, as it was found.
type Found struct {
	Path     string // below the directory
	Dev, Ino uint64 // which file it was
}

// MaskedNow is what is masked in a workspace at a time.
type MaskedNow struct {
	names Names
	paths []string                   // sorted
	sums  map[[sha256.Size]byte]bool // of what the files have
}

// Has reports whether a file is masked that has, or had, these texts: by its name, because a link of such a name leads there or it is
// another name of such a file, or because it had what one of them has.
func (n MaskedNow) Has(rel string, texts ...[]byte) bool {
	if _, found := slices.BinarySearch(n.paths, rel); found || n.names.Count(path.Base(rel)) {
		return true
	}
	return slices.ContainsFunc(texts, func(text []byte) bool { return n.sums[sha256.Sum256(text)] })
}

// MaskedCopy is how a file is shown.
type MaskedCopy struct {
	Found
	Text []byte
	Same bool // there is nothing to mask in it
}

// maxCopies is the most bytes that copies have together.
const maxCopies = 32 << 20

// Copies finds the files of a directory that are masked, and copies them. size is how many bytes the copies have so far;
// known gives values other placeholders, as Masker.Known does, and may be nil.
func (m *Masks) Copies(ctx context.Context, dir SearchDir, size *int64, known func(name string, value []byte) (string, bool),
) ([]MaskedCopy, error) {
	found, err := m.look(ctx, dir)
	if err != nil {
		return nil, err
	}
	out, masker := make([]MaskedCopy, 0, len(found)), m.In(dir.Path)
	if known != nil {
		masker.Known = known
	}
	for _, f := range found {
		c := MaskedCopy{Found: f}
		c.Text, c.Same = masker.Copy(dir.Top, f.Path)
		if *size += int64(len(c.Text)); *size > maxCopies {
			return nil, &BoundError{Why: "its files like .env are too large together"}
		}
		out = append(out, c)
	}
	return out, nil
}

// Still makes sure that a directory has the same masked files as before, which are the first of was, and returns the rest.
func (m *Masks) Still(ctx context.Context, dir SearchDir, was []Found) (rest []Found, err error) {
	now, err := m.look(ctx, dir)
	if err != nil {
		return nil, err
	}
	if len(now) > len(was) || !slices.Equal(now, was[:len(now)]) {
		return nil, ErrMoved
	}
	return was[len(now):], nil
}

// Mechanism is what plans and attestations say of a run that finds masked copies.
const Mechanism = "masked_dotenv"

const keyBytes = 32

// OpenKey reads the key of placeholders from a file, and makes it where there is none.
func OpenKey(file string) ([]byte, error) {
	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, keyBytes)
		_, _ = rand.Read(key) // cannot fail
		if err := durable.WriteFile(file, key, 0o600); err != nil {
			return nil, fmt.Errorf("dotenv: make key: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dotenv: read key: %w", err)
	}
	if len(key) != keyBytes {
		return nil, fmt.Errorf("dotenv: %s is no key of placeholders: remove it, and another one is made", file)
	}
	return key, nil
}
