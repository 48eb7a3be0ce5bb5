// Package session opens, finds and closes sessions, each a line of work of one principal. What hangs on a session ends with
// it, in the transaction that closes it.
//
// The table is that of package run, which counts the calls of a session and keeps its labels.
//
// Its words are those of docs/words.md.
package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/ulid"
)

const (
	maxOpenSessions = 256 // per principal: an agent must not fill the store with names
	maxSessionName  = 128
	maxWorkspace    = 4096
	maxList         = 500
)

// Sessions opens, finds and closes sessions.
type Sessions struct {
	db      *store.DB
	journal store.Recorder
	now     func() time.Time
	idle    time.Duration
	ends    []func(tx *store.Tx, session palyra.SessionID, by string) error

	mu    sync.Mutex // guards cache; a leaf lock
	cache map[place]palyra.Session
}

// place is what an open session is found by.
type place struct {
	principal palyra.Principal
	workspace string
	surface   palyra.Surface
	name      string
	room      palyra.CallID
	bounds    string // as the table has them
}

// maxCached bounds the cache; beyond it, it starts anew.
const maxCached = 1024

// remembered returns an open session from memory and notes that it is used. The
// ledger checks again that it is open when it records a call in it.
func (s *Sessions) remembered(at place) (palyra.Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.cache[at]
	if !ok || s.stale(x) {
		return palyra.Session{}, false
	}
	x.UsedAt = s.now()
	s.cache[at] = x
	return x, true
}

func (s *Sessions) remember(at place, x palyra.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cache) >= maxCached || s.cache == nil {
		s.cache = map[place]palyra.Session{}
	}
	s.cache[at] = x
}

func (s *Sessions) forget(id palyra.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, x := range s.cache {
		if x.ID == id {
			delete(s.cache, at)
		}
	}
}

// Config wires Sessions.
type Config struct {
	DB      *store.DB
	Journal store.Recorder
	Now     func() time.Time
	Idle    time.Duration // a session unused for this long is closed
	// OnClose ends what hangs on a session, in the transaction that closes it.
	OnClose []func(tx *store.Tx, session palyra.SessionID, by string) error
}

// New returns Sessions.
func New(c Config) (*Sessions, error) {
	if c.DB == nil || c.Journal == nil || c.Now == nil || c.Idle <= 0 {
		return nil, errors.New("session: incomplete config")
	}
	return &Sessions{db: c.DB, journal: c.Journal, now: c.Now, idle: c.Idle, ends: c.OnClose}, nil
}

const sessionColumns = `id, principal, workspace, door, name, labels, opened_at, used_at, closed_at, calls, room, bounds`

func scanSession(scan func(...any) error) (palyra.Session, error) {
	var s palyra.Session
	var id, principal, labels, room, bounds string
	var opened, used, closed int64
	if err := scan(&id, &principal, &s.Workspace, &s.Surface, &s.Name, &labels, &opened, &used, &closed, &s.Calls, &room,
		&bounds); err != nil {
		return s, err
	}
	if bounds != "" {
		if err := json.Unmarshal([]byte(bounds), &s.Within); err != nil {
			return s, err
		}
	}
	s.Room = palyra.CallID(room)
	s.ID, s.Principal = palyra.SessionID(id), palyra.Principal(principal)
	s.OpenedAt, s.UsedAt, s.ClosedAt = store.Moment(opened), store.Moment(used), store.Moment(closed)
	return s, json.Unmarshal([]byte(labels), &s.Labels)
}

// Resolve returns the session a proposal belongs to: the one named by id or name, else the principal's default for
// this workspace and surface, opened if need be. A closed id is never used again.
func (s *Sessions) Resolve(ctx context.Context, p palyra.Proposal) (palyra.Session, error) {
	want := string(p.Session)
	if ulid.Valid(want) {
		return s.byID(ctx, p, palyra.SessionID(want))
	}
	if len(want) > maxSessionName || !plain(want) || len(p.Workspace) > maxWorkspace || !plain(p.Workspace) {
		return palyra.Session{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bad session or workspace name").
			WithRemedy("use a session id, or a short name of printable characters")
	}
	where, err := at(p)
	if err != nil {
		return palyra.Session{}, err
	}
	if found, ok := s.remembered(where); ok {
		return found, nil
	}
	found, ok, err := s.current(ctx, where)
	if err == nil && !ok {
		found, err = s.open(ctx, where)
	}
	if err == nil {
		s.remember(where, found)
	}
	return found, err
}

// Peek returns the session that a proposal would be part of, without opening one; false when there is none.
func (s *Sessions) Peek(ctx context.Context, p palyra.Proposal) (palyra.Session, bool, error) {
	if ulid.Valid(string(p.Session)) {
		x, err := s.byID(ctx, p, p.Session)
		return x, err == nil, nil
	}
	where, err := at(p)
	if err != nil {
		return palyra.Session{}, false, err
	}
	return s.current(ctx, where)
}

// at is where a proposal's session is found. Links in the workspace's path are
// followed, so that one directory has one session. Credentials that reach differently
// far have different ones: what was granted or kept under the one is not the other's.
func at(p palyra.Proposal) (place, error) {
	a := place{principal: p.Principal, workspace: p.Workspace, surface: p.Surface, name: string(p.Session), room: p.Room}
	if real, err := filepath.EvalSymlinks(a.workspace); err == nil && a.workspace != "" {
		a.workspace = real
	}
	if len(p.Within) > 0 {
		raw, err := json.Marshal(slices.Compact(slices.Sorted(slices.Values(p.Within))))
		if err != nil {
			return place{}, fmt.Errorf("session: bounds: %w", err)
		}
		a.bounds = string(raw)
	}
	return a, nil
}

func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\n\r") }

func (s *Sessions) byID(ctx context.Context, p palyra.Proposal, id palyra.SessionID) (palyra.Session, error) {
	found, err := s.Get(ctx, id)
	if err != nil {
		return found, err
	}
	switch {
	case !p.Reach().May(palyra.ActJoin, found.Reached()): // whose it is, is nobody else's business
		return palyra.Session{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no session %s", id)
	case !found.ClosedAt.IsZero() || s.stale(found):
		return palyra.Session{}, palyra.Errorf(palyra.Conflict, palyra.ReasonSessionClosed, "session %s is closed", id).
			WithRemedy("leave the session out to get a new one")
	}
	return found, nil
}

func (s *Sessions) stale(x palyra.Session) bool { return s.now().Sub(x.UsedAt) > s.idle }

// current finds the open session, closing one that was idle too long.
func (s *Sessions) current(ctx context.Context, at place) (palyra.Session, bool, error) {
	var found palyra.Session
	err := s.db.Read(ctx, func(tx *store.Tx) error {
		q := `SELECT ` + sessionColumns + ` FROM sessions
			WHERE principal=? AND workspace=? AND door=? AND name=? AND room=? AND bounds=? AND closed_at=0`
		return tx.Each(q, []any{string(at.principal), at.workspace, string(at.surface), at.name, string(at.room), at.bounds},
			func(scan func(...any) error) (err error) {
				found, err = scanSession(scan)
				return err
			})
	})
	if err != nil || found.ID == "" {
		return found, false, err
	}
	if s.stale(found) {
		return palyra.Session{}, false, s.Close(ctx, found.ID, "idle")
	}
	return found, true, nil
}

func (s *Sessions) open(ctx context.Context, at place) (palyra.Session, error) {
	now := s.now()
	x := palyra.Session{
		ID: palyra.SessionID(ulid.New(now)), Principal: at.principal, Workspace: at.workspace, Surface: at.surface, Name: at.name,
		OpenedAt: now, UsedAt: now,
	}
	err := s.db.Write(ctx, "session.opened", func(tx *store.Tx) error {
		var open int64
		if err := tx.Get(`SELECT count(*) FROM sessions WHERE principal=? AND room=? AND closed_at=0`,
			[]any{string(at.principal), string(at.room)}, &open); err != nil {
			return err
		}
		if open >= maxOpenSessions {
			return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "%s has %d open sessions", at.principal, open).
				WithRemedy("close some with 'palyra sessions close'")
		}
		n, err := tx.Exec(`INSERT INTO sessions (id, principal, workspace, door, name, labels, opened_at, used_at, room, bounds)
			VALUES (?,?,?,?,?,'[]',?,?,?,?) ON CONFLICT DO NOTHING`,
			string(x.ID), string(at.principal), at.workspace, string(at.surface), at.name, store.Nanos(now), store.Nanos(now), string(at.room),
			at.bounds)
		if err != nil || n == 0 {
			return err // n == 0: someone else opened it just now
		}
		_, err = s.journal.Append(tx, palyra.SessionOpened{
			Session: x.ID, Principal: at.principal, Workspace: palyra.Clip(at.workspace, 512), Surface: at.surface, Room: at.room,
		})
		return err
	})
	if err != nil {
		return palyra.Session{}, fmt.Errorf("run: open session: %w", err)
	}
	found, ok, err := s.current(ctx, at)
	if err == nil && !ok {
		err = palyra.Errorf(palyra.Conflict, palyra.ReasonSessionClosed, "the session was closed as it was opened").WithRemedy("try again")
	}
	return found, err
}

// Get returns a session by id.
func (s *Sessions) Get(ctx context.Context, id palyra.SessionID) (palyra.Session, error) {
	var found palyra.Session
	err := s.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT `+sessionColumns+` FROM sessions WHERE id=?`, []any{string(id)}, func(scan func(...any) error) (err error) {
			found, err = scanSession(scan)
			return err
		})
	})
	if err == nil && found.ID == "" {
		err = palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no session %s", palyra.Clip(string(id), 64)).
			WithRemedy("see 'palyra sessions list'")
	}
	return found, err
}

// List returns sessions, newest first; open ones only unless all.
func (s *Sessions) List(ctx context.Context, all bool, before palyra.SessionID, limit int) ([]palyra.Session, error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	before = cmp.Or(before, "~")
	var list []palyra.Session
	err := s.db.Read(ctx, func(tx *store.Tx) error {
		q := `SELECT ` + sessionColumns + ` FROM sessions WHERE id < ? AND (? OR closed_at=0) ORDER BY id DESC LIMIT ?`
		return tx.Each(q, []any{string(before), all, limit}, func(scan func(...any) error) error {
			x, err := scanSession(scan)
			list = append(list, x)
			return err
		})
	})
	return list, err
}

// Close ends a session and everything that hangs on it. Closing a closed one is a Conflict.
func (s *Sessions) Close(ctx context.Context, id palyra.SessionID, by string) error {
	err := s.db.Write(ctx, "session.closed", func(tx *store.Tx) error {
		n, err := tx.Exec(`UPDATE sessions SET closed_at=? WHERE id=? AND closed_at=0`, store.Nanos(s.now()), string(id))
		if err != nil {
			return err
		}
		if n == 0 {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonSessionClosed, "session %s is not open", palyra.Clip(string(id), 64)).
				WithRemedy("see 'palyra sessions list'")
		}
		for _, end := range s.ends {
			if err := end(tx, id, by); err != nil {
				return err
			}
		}
		_, err = s.journal.Append(tx, palyra.SessionClosed{Session: id, By: by})
		return err
	})
	if err != nil {
		return fmt.Errorf("run: close session: %w", err)
	}
	s.forget(id)
	return nil
}

// CloseAll closes every open session of a principal, as when its credential ends.
func (s *Sessions) CloseAll(ctx context.Context, p palyra.Principal, by string) error {
	return s.closeEach(ctx, by, `SELECT id FROM sessions WHERE principal=? AND closed_at=0`, string(p))
}

// CloseRoom closes the sessions of a room that is over: nobody can join them any more.
func (s *Sessions) CloseRoom(ctx context.Context, room palyra.CallID) error {
	return s.closeEach(ctx, "room over", `SELECT id FROM sessions WHERE room=? AND room<>'' AND closed_at=0`, string(room))
}

func (s *Sessions) closeEach(ctx context.Context, by, query string, args ...any) error {
	var ids []palyra.SessionID
	err := s.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(query, args, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, palyra.SessionID(id))
			return err
		})
	})
	for _, id := range ids {
		if err := s.Close(ctx, id, by); err != nil && palyra.CodeOf(err) != palyra.Conflict {
			return err
		}
	}
	return err
}

// sweepEvery is how often idle sessions are looked for; Resolve does not rely on it.
const sweepEvery = 10 * time.Minute

// Run closes idle sessions until ctx ends.
func (s *Sessions) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil && palyra.CodeOf(err) != palyra.Unavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Sessions) sweep(ctx context.Context) error {
	var old []palyra.SessionID
	err := s.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT id FROM sessions WHERE closed_at=0 AND used_at<? LIMIT 1000`, []any{store.Nanos(s.now().Add(-s.idle))},
			func(scan func(...any) error) error {
				var id string
				err := scan(&id)
				old = append(old, palyra.SessionID(id))
				return err
			})
	})
	for _, id := range old {
		if err := s.Close(ctx, id, "idle"); err != nil && palyra.CodeOf(err) != palyra.Conflict {
			return err
		}
	}
	return err
}
