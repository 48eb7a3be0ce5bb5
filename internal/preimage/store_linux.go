package preimage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/owner"
	"palyra/internal/subpath"
)

// Store is the directory of what calls replaced or removed. It is on the file system of the stages.
type Store struct {
	dir    *os.File
	path   string
	space  Space
	sealer Sealer // nil: nothing is sealed

	stranded func(name string, err error)                        // is told what could not be removed; nil: nobody is
	clear    func(as beneath.As, top int, names ...string) error // in tests: in the place of beneath.Clear

	mu   sync.Mutex
	busy map[string]*turn // entries that somebody works on, by name
}

// Space is how much there may be in a Store.
type Space interface {
	// Take takes space for bytes under a name, or says for people why there is none. Lose: what is new may go for it.
	Take(name string, bytes int64, lose bool) error
	Settled(name string) // what space was taken for is there now, or will not be
}

// unbounded is as much space as the disk has.
type unbounded struct{}

func (unbounded) Take(string, int64, bool) error { return nil }

func (unbounded) Settled(string) {}

// Bound has what is added take its space from s.
func (p *Store) Bound(s Space) { p.space = s }

// Space is where what is added takes its space from.
func (p *Store) Space() Space { return p.space }

// Open makes the directory where it is missing, and refuses one that is not the caller's alone.
func Open(path string) (*Store, error) {
	dir, err := owner.Dir(path, 0o700)
	if err != nil {
		return nil, fmt.Errorf("preimage: %w", err)
	}
	return &Store{dir: dir, path: path, space: unbounded{}}, nil
}

// Close gives the directory back. A second one does nothing.
func (p *Store) Close() error { return beneath.Ignore(p.dir.Close(), os.ErrClosed) }

// Path is where the store lies.
func (p *Store) Path() string { return p.path }

// Dir is the descriptor of the store.
func (p *Store) Dir() int { return int(p.dir.Fd()) }

// The names in the directory of a call.
const (
	ManifestName = "changes" // the file that says what a call changed
	Old          = "old"     // what was there, by the step that took it away
	Sealed       = "sealed"  // instead of that: the same, sealed
	sealing      = "sealing" // that is being written
	opened       = "opened"  // what is in it, while it is put back
)

// Block is what a file or a directory takes of a disk at least.
const Block = 4096

// Manifest is what is remembered of one call.
type Manifest struct {
	Version   int           `json:"version"`
	Workspace string        `json:"workspace"`
	Dev       uint64        `json:"dev"`
	Ino       uint64        `json:"ino"`
	UID       int64         `json:"uid"`
	GID       int64         `json:"gid"`
	At        time.Time     `json:"at"`
	Bytes     int64         `json:"bytes"`           // that it takes on disk, by what was replaced or removed
	Paths     int           `json:"paths,omitempty"` // how many changes there are
	Lost      string        `json:"lost,omitempty"`  // why these are not all that the call did
	Changes   []Replacement `json:"changes"`
}

// Replacement is one change, and where what was there lies.
type Replacement struct {
	Path []byte        `json:"path"`
	Was  change.State  `json:"was"`
	Now  change.State  `json:"now"`
	Step int           `json:"step"`           // of the list, which took it away
	Rest []byte        `json:"rest,omitempty"` // below what that step took
	Left *beneath.Mark `json:"left,omitempty"` // what the call left, as it was seen when it was put there; of files that were not read
	// Made by somebody else's program, with permissions that nobody knows ahead.
	AnyMode bool `json:"any_mode,omitempty"`
}

// Change is the replacement without where things lie.
func (e *Replacement) Change() change.Change {
	return change.Change{Path: string(e.Path), Was: e.Was, Now: e.Now}
}

// Unread reports whether nobody knows what is in a file that the call left.
func (e *Replacement) Unread() bool { return e.Now.Kind == change.File && e.Now.Digest == "" }

// Owner is whose the workspace is.
func (m *Manifest) Owner() owner.Identity { return owner.Identity{UID: m.UID, GID: m.GID} }

// Listed is how much a change takes in a manifest, at most.
func Listed(c *change.Change) int64 {
	return int64(512 + 2*(len(c.Path)+len(c.Was.Target)+len(c.Now.Target)))
}

// Text is the manifest as it is written down.
func (m *Manifest) Text() ([]byte, error) {
	m.Paths = len(m.Changes)
	text, err := json.Marshal(m)
	if err == nil && len(text) > mostManifest {
		err = fmt.Errorf("preimage: a list of %d bytes, at most %d", len(text), mostManifest)
	}
	return text, err
}

// Trim removes what of a stage is not needed to put things back.
func (p *Store) Trim(name string) error {
	defer p.alone(name)()
	top, err := beneath.OpenDir(p.Dir(), name)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	names, err := top.Readdirnames(-1)
	if err != nil {
		return err
	}
	is := slices.Contains(names, Sealed) // then what it was made of is not needed
	names = slices.DeleteFunc(names, func(n string) bool { return n == Old && !is || n == Sealed || n == ManifestName })
	return beneath.Clear(owner.As, int(top.Fd()), names...)
}

// Recover removes what an earlier daemon that died had still to remove of kept runs.
func (p *Store) Recover(ctx context.Context) error {
	names, err := p.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, p.Trim(name))
	}
	return errors.Join(errs...)
}

// Names lists what is remembered.
func (p *Store) Names() ([]string, error) {
	d, err := beneath.OpenDir(p.Dir(), ".")
	if err != nil {
		return nil, fmt.Errorf("preimage: %w", err)
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("preimage: %w", err)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { return !subpath.PlainID(n) }), nil
}

// Forget removes what is remembered under a name.
func (p *Store) Forget(name string) error {
	if !subpath.PlainID(name) {
		return fmt.Errorf("preimage: %q is no name", name)
	}
	defer p.alone(name)()
	if err := beneath.Remove(owner.As, p.Dir(), name); err != nil {
		return fmt.Errorf("preimage: forget: %w", err)
	}
	return nil
}

// Find looks in that directory for what a step took away: moved, or copied.
func Find(old int, e *Replacement) (string, *unix.Stat_t, error) {
	for _, at := range e.places() {
		if err := open(old, beneath.Parent(at)); err != nil {
			return "", nil, err
		}
		if st, missing, err := beneath.LookBelow(old, at); err != nil || !missing {
			return at, st, err
		}
	}
	return "", nil, errNone
}

var errNone = errors.New("it is not remembered")

// places are where what a step took away may lie: moved, or copied.
func (e *Replacement) places() []string {
	n, rest := strconv.Itoa(e.Step), string(e.Rest)
	return []string{n + rest, n + ".copy" + rest}
}

// open lets the owner into a directory that he had shut.
func open(top int, dir string) error {
	for i := range dir + "/" {
		if i == 0 || i < len(dir) && dir[i] != '/' {
			continue
		}
		st, missing, err := beneath.LookBelow(top, dir[:i])
		if err != nil || missing {
			return err
		}
		if beneath.IsDir(st) && st.Mode&0o700 != 0o700 {
			err = beneath.InParent(top, dir[:i], func(d int, name string) error { return beneath.ChmodAt(d, name, st.Mode&0o3777|0o700) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}
