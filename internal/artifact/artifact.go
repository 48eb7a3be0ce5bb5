// Package artifact keeps outputs that are too large to deliver with a call's outcome.
//
// Words: an artifact is a run of bytes with an id, a digest and a session; that session reads it, and whoever may
// see the call that made it. The bytes are a file of the daemon's own directory, the rest is a row.
//
// Promises: an artifact that Keep returned is durable, and Read hands out exactly the bytes that were kept or
// fails: a damaged file is noticed. The file is durable before its row, so that a crash leaves at most a file
// without a row, which the next start removes.
//
// It does not judge who may read (the session is given by the caller, from the credential) and does not journal:
// the attestation of the call that made the artifact carries its id and digest.
//
// Its words are those of docs/words.md.
package artifact

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/store"
	"palyra/internal/ulid"
)

//go:embed schema
var schema embed.FS

// Schema returns the part's tables.
func Schema() store.Schema { return store.SchemaOf("artifact", schema) }

// Config wires a Store. Zero bounds get the defaults.
type Config struct {
	DB         *store.DB
	Dir        string // of the daemon's own; made if it does not exist
	Now        func() time.Time
	MaxBytes   int64 // of one artifact; default 64 MiB
	MaxSession int64 // of all of a session; default 256 MiB
}

// Store keeps artifacts.
type Store struct{ Config }

// New opens the store and removes files that have no row: a crash left them.
func New(ctx context.Context, c Config) (*Store, error) {
	if c.DB == nil || c.Dir == "" || c.Now == nil {
		return nil, errors.New("artifact: new: a part is missing")
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 64 << 20
	}
	if c.MaxSession <= 0 {
		c.MaxSession = 256 << 20
	}
	if err := durable.PrivateDir(c.Dir); err != nil {
		return nil, fmt.Errorf("artifact: new: %w", err)
	}
	s := &Store{c}
	return s, s.sweep(ctx)
}

func (s *Store) path(id palyra.ID) string { return filepath.Join(s.Dir, string(id)) }

// sweep removes what is in the directory and has no row.
func (s *Store) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return fmt.Errorf("artifact: sweep: %w", err)
	}
	return s.DB.Read(ctx, func(tx *store.Tx) error {
		for _, e := range entries {
			var one int
			err := tx.Get(`SELECT 1 FROM artifacts WHERE id = ?`, []any{e.Name()}, &one)
			if errors.Is(err, store.ErrNoRows) {
				err = os.Remove(filepath.Join(s.Dir, e.Name()))
			}
			if err != nil {
				return fmt.Errorf("artifact: sweep: %w", err)
			}
		}
		return nil
	})
}

// Keep stores data for a session. It is durable when Keep returns nil.
func (s *Store) Keep(ctx context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error) {
	size := int64(len(data))
	if size > s.MaxBytes {
		return "", palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "an output of %d bytes is over the limit of %d for artifacts",
			size, s.MaxBytes).
			WithRemedy("ask for less at once")
	}
	now := s.Now()
	id := palyra.ID(ulid.New(now))
	if err := durable.WriteFile(s.path(id), data, 0o600); err != nil {
		return "", explain(err)
	}
	err := s.DB.Write(ctx, "artifact.kept", func(tx *store.Tx) error {
		if err := s.room(tx, session, size); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO artifacts (id, session, call_id, size, digest, created) VALUES (?, ?, ?, ?, ?, ?)`,
			string(id), string(session), string(call), size, string(palyra.SumBytes(data)), now.UnixNano())
		return err
	})
	if err != nil {
		_ = os.Remove(s.path(id)) // if this fails too, the next start removes it
		return "", fmt.Errorf("artifact: keep: %w", err)
	}
	return id, nil
}

// room refuses an artifact that would take a session over its share.
func (s *Store) room(tx *store.Tx, session palyra.SessionID, size int64) error {
	var used int64
	if err := tx.Get(`SELECT COALESCE(SUM(size), 0) FROM artifacts WHERE session = ?`, []any{string(session)}, &used); err != nil {
		return err
	}
	if used+size > s.MaxSession {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonBudgetSpent, "the session's artifacts would take more than %d bytes", s.MaxSession).
			WithRemedy("start a new session")
	}
	return nil
}

// Read returns up to limit bytes of an artifact from offset on, and its size. The artifact must be the session's;
// any other is not found, so that ids of other sessions tell nothing.
func (s *Store) Read(ctx context.Context, session palyra.SessionID, id palyra.ID, offset, limit int64) (data []byte, size int64,
	err error,
) {
	b, err := s.whole(ctx, id, `session = ?`, string(session))
	if errors.Is(err, store.ErrNoRows) {
		return nil, 0, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "this session has no such artifact").
			WithRemedy("use the artifact_id of an output of this session; artifacts are removed after a while")
	}
	if err != nil {
		return nil, 0, err
	}
	size = int64(len(b))
	from := min(max(offset, 0), size)
	return b[from : from+min(max(limit, 0), size-from)], size, nil
}

// Of returns an artifact that a call made, whole. Whoever asks has seen to it that the call may be seen.
func (s *Store) Of(ctx context.Context, call palyra.CallID, id palyra.ID) ([]byte, error) {
	b, err := s.whole(ctx, id, `call_id = ?`, string(call))
	if errors.Is(err, store.ErrNoRows) {
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "this call has no such artifact any more").
			WithRemedy("artifacts are removed after a while; the attestation of the call has its digest")
	}
	return b, err
}

// whole returns the bytes of the artifact with this id of which the condition holds; store.ErrNoRows: there is none.
func (s *Store) whole(ctx context.Context, id palyra.ID, where, is string) ([]byte, error) {
	if !ulid.Valid(string(id)) {
		return nil, store.ErrNoRows
	}
	var digest string
	err := s.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get(`SELECT digest FROM artifacts WHERE id = ? AND `+where, []any{string(id), is}, &digest)
	})
	if err != nil && !errors.Is(err, store.ErrNoRows) {
		err = fmt.Errorf("artifact: read: %w", err)
	}
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(s.path(id))
	if err != nil || palyra.SumBytes(b) != palyra.Digest(digest) {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "artifact %s is damaged", id).
			WithRemedy("make the output again").WithCause(err)
	}
	return b, nil
}

// Prune forgets artifacts made before the given time and returns how many.
func (s *Store) Prune(ctx context.Context, before time.Time) (int, error) {
	var ids []palyra.ID
	err := s.DB.Write(ctx, "artifact.pruned", func(tx *store.Tx) error {
		ids = nil
		err := tx.Each(`SELECT id FROM artifacts WHERE created < ?`, []any{before.UnixNano()}, func(scan func(...any) error) error {
			var id palyra.ID
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(`DELETE FROM artifacts WHERE created < ?`, before.UnixNano())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("artifact: prune: %w", err)
	}
	for _, id := range ids {
		if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return len(ids), fmt.Errorf("artifact: prune: %w", err)
		}
	}
	return len(ids), nil
}

// explain puts a failed write into words.
func explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "the disk that holds Palyra's state is full").
			WithRemedy("free space on it").WithCause(err)
	}
	return fmt.Errorf("artifact: keep: %w", err)
}
