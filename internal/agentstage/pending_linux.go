package agentstage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/durable"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/stage"
)

// partPrefix begins the names of the files that say what is about to be kept, before the call's name.
const partPrefix = "part."

// written is a choice as it is written down.
type written struct {
	All, Picked, Fresh [][]byte
}

func bytesOf(all []string) (out [][]byte) {
	for _, s := range all {
		out = append(out, []byte(s))
	}
	return out
}

func textsOf(all [][]byte) (out []string) {
	for _, b := range all {
		out = append(out, string(b))
	}
	return out
}

// Begin writes down what a call is about to keep: a crash between keeping and taking leaves a stage that is known to be
// in between.
func (s Store) Begin(agent, call string, c Choice) error {
	w := written{All: bytesOf(c.all), Picked: bytesOf(c.picked)}
	for p := range c.fresh {
		w.Fresh = append(w.Fresh, []byte(p))
	}
	text, err := json.Marshal(w)
	if err == nil {
		err = durable.WriteFile(filepath.Join(s.Dir, Name(agent), partPrefix+call), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("agentstage: begin: %w", err)
	}
	return nil
}

// Pending reports whether calls keep something of an agent's stage, or did so and it was not taken.
func (s Store) Pending(n Note) bool {
	names, err := filepath.Glob(filepath.Join(s.Dir, Name(n.Call), partPrefix+"*"))
	return err == nil && len(names) > 0
}

// Settle takes what calls kept of an agent's stage; waits tells those that are not settled yet. What a call kept is told
// by what is in the workspace: all of it, or none. It reports whether something was settled.
func (s Store) Settle(ctx context.Context, n Note, waits func(call string) bool) (settled bool, err error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, Name(n.Call), partPrefix+"*"))
	for _, name := range names {
		if waits(strings.TrimPrefix(filepath.Base(name), partPrefix)) {
			continue
		}
		text, readErr := os.ReadFile(name)
		var w written
		if readErr == nil {
			readErr = json.Unmarshal(text, &w)
		}
		if readErr != nil {
			return settled, errors.Join(err, readErr)
		}
		settled = true
		c := Choice{all: textsOf(w.All), picked: textsOf(w.Picked), fresh: map[string]bool{}}
		for _, p := range w.Fresh {
			c.fresh[string(p)] = true
		}
		err = errors.Join(err, s.Both(n, func(ws, upper int) error {
			for _, p := range c.picked {
				if !Same(upper, ws, p) {
					return nil
				}
			}
			return Take(ctx, upper, ws, c)
		}), beneath.Ignore(os.Remove(name), os.ErrNotExist))
	}
	return settled, err
}

// Both calls f with the workspace and the upper layer, by the rights of the workspace's owner.
func (s Store) Both(n Note, f func(ws, upper int) error) error {
	upper, err := unix.Open(filepath.Join(s.Dir, Name(n.Call), stage.Upper), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(upper) }()
	return owner.Do(n.Owner(), func() error {
		ws, err := beneath.OpenTree(n.Workspace)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(ws) }()
		return f(ws, upper)
	})
}

// Without leaves of the paths that somebody else changed those that are still other than what is on the stage.
func (s Store) Without(n Note, theirs []string) (out []string, err error) {
	err = s.Both(n, func(ws, upper int) error {
		for _, p := range theirs {
			if !Same(upper, ws, p) {
				out = append(out, p)
			}
		}
		return nil
	})
	return out, err
}

// CopyTo puts what is chosen onto another stage, which lies at a path.
func (s Store) CopyTo(ctx context.Context, n Note, to string, c Choice) error {
	target, err := unix.Open(filepath.Join(to, stage.Upper), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	return s.Both(n, func(ws, upper int) error { return Copy(ctx, upper, ws, target, c) })
}

// Drop takes what is chosen away.
func (s Store) Drop(ctx context.Context, n Note, c Choice) error {
	return s.Both(n, func(ws, upper int) error { return Take(ctx, upper, ws, c) })
}

// Contents is preimage.Store.Contents for the stage of an agent.
func (s Store) Contents(
	ctx context.Context, n Note, all []change.Change, pick func(change.Change) bool, most int64, f func(preimage.Content) bool,
) error {
	return s.Both(n, func(ws, upper int) error {
		pair := preimage.Pair{
			Before: ws, After: upper, Most: most,
			WasNot: "somebody changed it since, or it cannot be read", IsNot: "it cannot be read",
		}
		for _, c := range all {
			find := func() (string, error) { return c.Path, nil }
			if more, err := pair.Read(ctx, c, find, pick, f); err != nil || !more {
				return err
			}
		}
		return nil
	})
}
