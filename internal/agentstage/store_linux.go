package agentstage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/durable"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/stage"
	"palyra/internal/subpath"
)

const (
	prefix   = "agent." // of the directories of such stages, before the call's name
	noteName = "agent"  // the file that says what lies there
	mostNote = 64 << 10
)

// Note says whose a stage is, as it is written down before anything is on it.
type Note struct {
	Version   int           `json:"version"`
	Call      string        `json:"call"` // of the agent
	Workspace string        `json:"workspace"`
	Dev       uint64        `json:"dev"`
	Ino       uint64        `json:"ino"`
	Mode      uint32        `json:"mode"` // of the upper layer when it was made
	UID       int64         `json:"uid"`
	GID       int64         `json:"gid"`
	Boot      string        `json:"boot"` // of the machine: devices may have other numbers after the next
	At        time.Time     `json:"at"`
	Since     unix.Timespec `json:"since"` // changes from then on are others'
	Ended     time.Time     `json:"ended,omitzero"`
	Cut       bool          `json:"cut,omitempty"` // the machine stopped while it ran
}

// Owner is the workspace's owner.
func (n *Note) Owner() owner.Identity { return owner.Identity{UID: n.UID, GID: n.GID} }

// Root is the workspace's directory, as it is numbered now.
func (n *Note) Root() beneath.Ident {
	var st unix.Stat_t
	if n.Boot != boot() && unix.Lstat(n.Workspace, &st) == nil && st.Ino == n.Ino {
		return beneath.IdentOf(&st)
	}
	return beneath.Ident{Dev: n.Dev, Ino: n.Ino}
}

// Past says that whoever wrote to the stage is gone: an earlier daemon ran it.
func (n *Note) Past(at time.Time) {
	n.Cut, n.Ended = n.Boot != boot(), at
}

// boot tells one start of the machine from another.
func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// Store is the directory that the stages are in. Others may have things there too.
type Store struct{ Dir string }

// Name is the name of an agent's stage in the directory.
func Name(call string) string { return prefix + call }

// NoneError says that there is no stage of an agent.
type NoneError struct{ Call string }

// Error implements error.
func (e *NoneError) Error() string { return "agentstage: nothing of the agent is there" }

// Write writes a note down: it is there after the machine stopped, or the error says that it is not.
func (s Store) Write(n Note) error {
	n.Version = 1
	if n.Boot == "" {
		n.Boot = boot()
	}
	text, err := json.Marshal(n)
	if err == nil {
		err = durable.WriteFile(filepath.Join(s.Dir, Name(n.Call), noteName), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("agentstage: write: %w", err)
	}
	return nil
}

// Read returns the note of an agent's stage; where there is none the error is a NoneError.
func (s Store) Read(call string) (n Note, err error) {
	if !subpath.PlainID(call) {
		return n, &NoneError{call}
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, Name(call), noteName), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return n, &NoneError{call}
	}
	if err == nil {
		defer func() { _ = f.Close() }()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, mostNote)); err == nil {
			err = json.Unmarshal(text, &n)
		}
	}
	if err == nil && (n.Version != 1 || n.Call != call) {
		err = fmt.Errorf("version %d of call %q", n.Version, n.Call)
	}
	if err != nil {
		return n, fmt.Errorf("agentstage: read: %w", err)
	}
	return n, nil
}

// List returns the notes of all stages, oldest first, and the names of those that cannot be read.
func (s Store) List() (all []Note, bad []string, err error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, prefix+"*"))
	for _, name := range names {
		call := strings.TrimPrefix(filepath.Base(name), prefix)
		n, err := s.Read(call)
		if err != nil {
			bad = append(bad, call)
			continue
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Note) int { return strings.Compare(a.Call, b.Call) })
	return all, bad, err
}

// Remove removes a stage with all that is on it. The note goes last: what is left of a stage is still known as one.
func (s Store) Remove(call string) error {
	if !subpath.PlainID(call) {
		return &NoneError{call}
	}
	dir, err := os.Open(s.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return beneath.Ignore(beneath.Remove(owner.As, int(dir.Fd()), Name(call), stage.Upper, stage.Work, preimage.Old), unix.ENOENT)
}

// Flush has the kernel write what is on the stages to the disk.
func (s Store) Flush() error {
	dir, err := os.Open(s.Dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
}
