// Package inforce keeps what was in force: every policy bundle and every security configuration, each
// once, under its digest, and who activated them when. So a verdict can be judged again years later.
package inforce

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/store"
)

//go:embed schema
var tables embed.FS

// Schema is the part's tables.
func Schema() store.Schema { return store.SchemaOf("policy", tables) }

// SnapshotsConfig wires Snapshots.
type SnapshotsConfig struct {
	DB      *store.DB
	Journal store.Recorder
	Now     func() time.Time
}

// Snapshots keeps every bundle and every security configuration that was in force, each once, under its
// digest, so that verdicts and attestations can always be followed back to them and judged again. Everything
// that is read is checked against its digest.
type Snapshots struct{ SnapshotsConfig }

// NewSnapshots returns the store.
func NewSnapshots(c SnapshotsConfig) (*Snapshots, error) {
	if c.DB == nil || c.Journal == nil || c.Now == nil {
		return nil, errors.New("policy: new snapshots: a part is missing")
	}
	return &Snapshots{c}, nil
}

// Save keeps a snapshot and returns its digest. Saving it again changes nothing.
func (s *Snapshots) Save(ctx context.Context, snap palyra.Snapshot) (palyra.Digest, error) {
	digest, body, err := encodeSnapshot(snap)
	if err != nil {
		return "", err
	}
	var known bool
	err = s.DB.Read(ctx, func(tx *store.Tx) (err error) {
		known, err = rowExists(tx, "SELECT 1 FROM policy_snapshot WHERE digest = ?", digest)
		return err
	})
	if err == nil && !known {
		err = s.DB.Write(ctx, "policy.snapshot", func(tx *store.Tx) error { return s.keepSnapshot(tx, digest, body) })
	}
	if err != nil {
		return "", fmt.Errorf("policy: save snapshot: %w", err)
	}
	return digest, nil
}

// Get returns the snapshot with the digest.
func (s *Snapshots) Get(ctx context.Context, digest palyra.Digest) (palyra.Snapshot, error) {
	var body string
	err := s.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get("SELECT body FROM policy_snapshot WHERE digest = ?", []any{string(digest)}, &body)
	})
	if err != nil {
		return palyra.Snapshot{}, absent(err, "snapshot", digest)
	}
	var snap palyra.Snapshot
	if err := decode(body, &snap); err != nil {
		return palyra.Snapshot{}, fmt.Errorf("policy: get snapshot: %w", err)
	}
	if found, err := snap.Digest(); err != nil || found != digest {
		return palyra.Snapshot{}, damaged("snapshot", digest, err)
	}
	return snap, nil
}

// Bundle returns the bundle with the digest, ready to judge with.
func (s *Snapshots) Bundle(ctx context.Context, digest palyra.Digest) (*policy.Bundle, error) {
	var body string
	err := s.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get("SELECT files FROM policy_bundle WHERE digest = ?", []any{string(digest)}, &body)
	})
	if err != nil {
		return nil, absent(err, "policy bundle", digest)
	}
	files := map[string]string{}
	if err := decode(body, &files); err != nil {
		return nil, fmt.Errorf("policy: get bundle: %w", err)
	}
	if found, err := policy.Sum(files); err != nil || found != digest { // before anything is made of it
		return nil, damaged("policy bundle", digest, err)
	}
	return policy.Compile(files)
}

func (s *Snapshots) keepSnapshot(tx *store.Tx, digest palyra.Digest, body string) error {
	known, err := rowExists(tx, "SELECT 1 FROM policy_snapshot WHERE digest = ?", digest)
	if err != nil || known {
		return err
	}
	_, err = tx.Exec("INSERT INTO policy_snapshot (digest, body, saved_at) VALUES (?, ?, ?)", string(digest), body, s.Now().UnixNano())
	return err
}

func (s *Snapshots) keepBundle(tx *store.Tx, digest palyra.Digest, files string) error {
	known, err := rowExists(tx, "SELECT 1 FROM policy_bundle WHERE digest = ?", digest)
	if err != nil || known {
		return err
	}
	_, err = tx.Exec("INSERT INTO policy_bundle (digest, files, saved_at) VALUES (?, ?, ?)", string(digest), files, s.Now().UnixNano())
	return err
}

func rowExists(tx *store.Tx, query string, digest palyra.Digest) (bool, error) {
	var one int
	err := tx.Get(query, []any{string(digest)}, &one)
	if errors.Is(err, store.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func encodeSnapshot(snap palyra.Snapshot) (palyra.Digest, string, error) {
	digest, err := snap.Digest()
	if err != nil {
		return "", "", fmt.Errorf("policy: snapshot: %w", err)
	}
	body, err := json.Marshal(snap)
	if err != nil {
		return "", "", fmt.Errorf("policy: snapshot: %w", err)
	}
	return digest, string(body), nil
}

// decode keeps numbers as they were written, so that digests come out equal.
func decode(body string, v any) error {
	dec := json.NewDecoder(bytes.NewReader([]byte(body)))
	dec.UseNumber()
	return dec.Decode(v)
}

func absent(err error, what string, digest palyra.Digest) error {
	if errors.Is(err, store.ErrNoRows) {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no %s has the digest %s", what, palyra.Clip(string(digest), 80))
	}
	return fmt.Errorf("policy: get %s: %w", what, err)
}

func damaged(what string, digest palyra.Digest, err error) error {
	return palyra.Errorf(palyra.Internal, palyra.ReasonVerifyFailed, "the %s kept as %s is not what was saved", what, digest).
		WithRemedy("the state was changed from outside; run 'palyra journal verify'").WithCause(err)
}
