package artifact

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/ulid"
)

type bench struct {
	*testing.T
	db  *store.DB
	cfg Config
	now time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	engine, err := sqlite.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bench{T: t, db: db, now: time.Unix(1_700_000_000, 0)}
	b.cfg = Config{DB: db, Dir: filepath.Join(dir, "artifacts"), Now: func() time.Time { return b.now }, MaxBytes: 1000, MaxSession: 2500}
	return b
}

func (b *bench) open() *Store {
	b.Helper()
	s, err := New(b.Context(), b.cfg)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) files() int {
	b.Helper()
	entries, err := os.ReadDir(b.cfg.Dir)
	if err != nil {
		b.Fatal(err)
	}
	return len(entries)
}

func TestKeepAndRead(t *testing.T) {
	b := newBench(t)
	s := b.open()
	data := []byte(strings.Repeat("0123456789", 50))
	id, err := s.Keep(t.Context(), "S", "C", data)
	if err != nil || !ulid.Valid(string(id)) {
		t.Fatal(id, err)
	}
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{
		{0, 1000, string(data)},
		{490, 100, "0123456789"},
		{3, 4, "3456"},
		{500, 1, ""},
		{501, 1, ""},
		{math.MaxInt64, math.MaxInt64, ""},
		{-5, 2, "01"},
		{0, -1, ""},
		{1, math.MaxInt64, string(data[1:])},
	} {
		got, size, err := s.Read(t.Context(), "S", id, c.offset, c.limit)
		if err != nil || size != 500 || string(got) != c.want {
			t.Errorf("%+v: %q, %d, %v", c, got, size, err)
		}
	}
	if fi, err := os.Stat(s.path(id)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
	if got, _, err := b.open().Read(t.Context(), "S", id, 0, 10); err != nil || string(got) != "0123456789" { // another daemon's life
		t.Errorf("%q %v", got, err)
	}
}

func TestOnlyTheSessionReads(t *testing.T) {
	s := newBench(t).open()
	id, err := s.Keep(t.Context(), "S", "C", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	other := palyra.ID(ulid.New(time.Now()))
	var texts []string
	for _, c := range []struct {
		session palyra.SessionID
		id      palyra.ID
	}{{"T", id}, {"", id}, {"S", other}, {"S", ""}, {"S", "../state.db"}, {"S", palyra.ID(strings.ToLower(string(id)))}} {
		_, _, err := s.Read(t.Context(), c.session, c.id, 0, 10)
		if palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%+v: %v", c, err)
		}
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("the answer tells what exists: %q", texts)
		}
	}
}

func TestBounds(t *testing.T) {
	b := newBench(t)
	s := b.open()
	if _, err := s.Keep(t.Context(), "S", "C", make([]byte, 1001)); palyra.CodeOf(err) != palyra.Exhausted {
		t.Error(err)
	}
	for i := range 3 {
		_, err := s.Keep(t.Context(), "S", "C", make([]byte, 1000))
		if (err != nil) != (i == 2) || err != nil && palyra.CodeOf(err) != palyra.Exhausted {
			t.Errorf("%d: %v", i, err)
		}
	}
	if b.files() != 2 {
		t.Errorf("%d files", b.files())
	}
	if _, err := s.Keep(t.Context(), "T", "C", make([]byte, 1000)); err != nil {
		t.Error(err)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	s := newBench(t).open()
	id, err := s.Keep(t.Context(), "S", "C", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(s.path(id), []byte("hellO"), 0o600) },
		func() error { return os.Remove(s.path(id)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Read(t.Context(), "S", id, 0, 10); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("%q %v", got, err)
		}
	}
}

// A crash between file and row leaves a file; the next start removes it and
// nothing else.
func TestStartSweepsOrphans(t *testing.T) {
	b := newBench(t)
	s := b.open()
	id, err := s.Keep(t.Context(), "S", "C", []byte("kept"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ulid.New(b.now), ".x.tmp"} {
		if err := os.WriteFile(filepath.Join(b.cfg.Dir, name), []byte("orphan"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = b.open()
	if got, _, err := s.Read(t.Context(), "S", id, 0, 10); b.files() != 1 || err != nil || string(got) != "kept" {
		t.Errorf("%d files, %q, %v", b.files(), got, err)
	}
}

func TestFailedRowLeavesNoFile(t *testing.T) {
	b := newBench(t)
	s := b.open()
	if err := b.db.Close(); err != nil {
		t.Fatal(err)
	}
	if id, err := s.Keep(t.Context(), "S", "C", []byte("x")); err == nil || id != "" || b.files() != 0 {
		t.Errorf("%q %v, %d files", id, err, b.files())
	}
}

func TestPrune(t *testing.T) {
	b := newBench(t)
	s := b.open()
	old, err := s.Keep(t.Context(), "S", "C", []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
	young, err := s.Keep(t.Context(), "S", "C", []byte("young"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prune(t.Context(), b.now); n != 1 || err != nil || b.files() != 1 {
		t.Errorf("%d, %v, %d files", n, err, b.files())
	}
	if _, _, err := s.Read(t.Context(), "S", old, 0, 10); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	if got, _, err := s.Read(t.Context(), "S", young, 0, 10); err != nil || !bytes.Equal(got, []byte("young")) {
		t.Error(got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(t.Context(), Config{}); err == nil {
		t.Error("without parts")
	}
	b := newBench(t)
	if err := errors.Join(os.Mkdir(b.cfg.Dir, 0o755), os.Chmod(b.cfg.Dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), b.cfg); err == nil {
		t.Error("a directory that others may write to was accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b = newBench(t)
	if _, err := b.open().Keep(ctx, "S", "C", nil); !errors.Is(err, context.Canceled) || b.files() != 0 {
		t.Error(err)
	}
}

// An artifact is also found by the call that made it, and by no other call.
func TestOfCall(t *testing.T) {
	b := newBench(t)
	s := b.open()
	id, err := s.Keep(t.Context(), "S1", "C1", []byte("list"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Of(t.Context(), "C1", id); err != nil || string(got) != "list" {
		t.Errorf("%q, %v", got, err)
	}
	for _, c := range []struct {
		call palyra.CallID
		id   palyra.ID
	}{{"C2", id}, {"C1", "../" + id}, {"C1", palyra.ID(ulid.New(b.now))}, {"", id}} {
		if got, err := s.Of(t.Context(), c.call, c.id); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.cfg.Dir, string(id)), []byte("LIST"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Of(t.Context(), "C1", id); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("a damaged one: %v", err)
	}
}
