package inforce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/store"
)

// Author answers for an activation: who it was, and the signature where a person asked for it.
type Author struct {
	By        palyra.Principal
	Signature *palyra.Signature
}

// Activation is a bundle and the configuration that it came into force with. Number is its place in the journal.
type Activation struct {
	Number   int64
	Bundle   palyra.Digest
	Snapshot palyra.Digest
	By       palyra.Principal
	At       time.Time
}

// Activate makes the bundle and the snapshot the ones in force: both are kept, and the journal says who did
// it, all or none. Nothing is written when they are in force already. Call it before the engine judges with
// them, so that every verdict refers to something that is kept.
func (s *Snapshots) Activate(ctx context.Context, b *policy.Bundle, snap palyra.Snapshot, a Author) (Activation, error) {
	if b == nil || a.By == "" {
		return Activation{}, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy: activate: no bundle or nobody to answer for it")
	}
	snap.Bundle = b.Digest()
	digest, body, err := encodeSnapshot(snap)
	if err != nil {
		return Activation{}, err
	}
	files, err := json.Marshal(b.Files())
	if err != nil {
		return Activation{}, fmt.Errorf("policy: activate: %w", err)
	}
	var now Activation
	err = s.DB.Write(ctx, palyra.PolicyActivated{}.Kind(), func(tx *store.Tx) error {
		last, err := getActivation(tx, newest)
		if err != nil && !errors.Is(err, store.ErrNoRows) {
			return err
		}
		if now = last; last.Bundle == b.Digest() && last.Snapshot == digest {
			return nil
		}
		if err := s.keepSnapshot(tx, digest, body); err != nil {
			return err
		}
		if err := s.keepBundle(tx, b.Digest(), string(files)); err != nil {
			return err
		}
		now, err = s.keepActivation(tx, palyra.PolicyActivated{Bundle: b.Digest(), Snapshot: digest, By: a.By, Signature: a.Signature})
		return err
	})
	if err != nil {
		return Activation{}, fmt.Errorf("policy: activate: %w", err)
	}
	return now, nil
}

func (s *Snapshots) keepActivation(tx *store.Tx, e palyra.PolicyActivated) (Activation, error) {
	pos, err := s.Journal.Append(tx, e)
	if err != nil {
		return Activation{}, err
	}
	a := Activation{Number: pos.Seq, Bundle: e.Bundle, Snapshot: e.Snapshot, By: e.By, At: s.Now().UTC()}
	_, err = tx.Exec("INSERT INTO policy_activation (seq, bundle, snapshot, activated_by, activated_at) VALUES (?, ?, ?, ?, ?)",
		a.Number, string(a.Bundle), string(a.Snapshot), string(a.By), a.At.UnixNano())
	return a, err
}

// The rows of activations, newest first.
const (
	activations = "SELECT seq, bundle, snapshot, activated_by, activated_at FROM policy_activation "
	newest      = activations + "ORDER BY seq DESC LIMIT 1"
)

// Active returns what was activated last; NotFound before the first time.
func (s *Snapshots) Active(ctx context.Context) (Activation, error) {
	return s.queryActivation(ctx, newest)
}

// Chosen returns the last activation that somebody else than the principal made: the principal only follows
// the choice of others. NotFound when there is none.
func (s *Snapshots) Chosen(ctx context.Context, but palyra.Principal) (Activation, error) {
	return s.queryActivation(ctx, activations+"WHERE activated_by <> ? ORDER BY seq DESC LIMIT 1", string(but))
}

// By returns the last activation of an author; NotFound when there is none.
func (s *Snapshots) By(ctx context.Context, by palyra.Principal) (Activation, error) {
	return s.queryActivation(ctx, activations+"WHERE activated_by = ? ORDER BY seq DESC LIMIT 1", string(by))
}

// Before returns the last activation of another bundle than the one in force; NotFound when there was none.
func (s *Snapshots) Before(ctx context.Context) (Activation, error) {
	return s.queryActivation(ctx,
		activations+"WHERE bundle <> (SELECT bundle FROM policy_activation ORDER BY seq DESC LIMIT 1) ORDER BY seq DESC LIMIT 1")
}

func (s *Snapshots) queryActivation(ctx context.Context, query string, args ...any) (a Activation, err error) {
	err = s.DB.Read(ctx, func(tx *store.Tx) (err error) {
		a, err = getActivation(tx, query, args...)
		return err
	})
	if errors.Is(err, store.ErrNoRows) {
		return a, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no such policy was activated yet")
	}
	if err != nil {
		return a, fmt.Errorf("policy: activation: %w", err)
	}
	return a, nil
}

// History returns the activations, newest first; a limit of 0 is none.
func (s *Snapshots) History(ctx context.Context, limit int) ([]Activation, error) {
	if limit <= 0 {
		limit = math.MaxInt32
	}
	var all []Activation
	err := s.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(activations+"ORDER BY seq DESC LIMIT ?", []any{limit}, func(scan func(...any) error) error {
			a, err := scanActivation(scan)
			all = append(all, a)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("policy: history: %w", err)
	}
	return all, nil
}

func getActivation(tx *store.Tx, query string, args ...any) (Activation, error) {
	return scanActivation(func(dest ...any) error { return tx.Get(query, args, dest...) })
}

func scanActivation(scan func(...any) error) (Activation, error) {
	var bundle, snapshot, by string
	var at int64
	var a Activation
	if err := scan(&a.Number, &bundle, &snapshot, &by, &at); err != nil {
		return Activation{}, err
	}
	a.Bundle, a.Snapshot, a.By = palyra.Digest(bundle), palyra.Digest(snapshot), palyra.Principal(by)
	a.At = time.Unix(0, at).UTC()
	return a, nil
}
