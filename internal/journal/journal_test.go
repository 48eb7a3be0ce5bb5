package journal

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// testSigner is an Ed25519 key as the keyring gives it.
type testSigner struct {
	name string
	key  ed25519.PrivateKey
	fail error
}

func newSigner(name string, seed byte) *testSigner {
	raw := make([]byte, ed25519.SeedSize)
	raw[0] = seed
	return &testSigner{name: name, key: ed25519.NewKeyFromSeed(raw)}
}

func (s *testSigner) Name() string { return s.name }

func (s *testSigner) Verifier() string {
	line, err := note.NewEd25519VerifierKey(s.name, s.key.Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	return line
}

func (s *testSigner) Sign(msg []byte) ([]byte, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	return ed25519.Sign(s.key, msg), nil
}

const testOrigin = "palyra.test/journal"

// fixture is a journal on a store of its own.
type fixture struct {
	*Journal
	path   string
	signer *testSigner
	clock  time.Time
}

func (f *fixture) now() time.Time {
	f.clock = f.clock.Add(time.Millisecond)
	return f.clock
}

func open(t testing.TB, path string, c Config) (*Journal, error) {
	t.Helper()
	engine, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(context.Background(), engine, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c.DB = db
	return New(context.Background(), c)
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{
		path: filepath.Join(t.TempDir(), "state.db"), signer: newSigner(testOrigin, 1),
		clock: time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC),
	}
	f.reopen(t)
	return f
}

// reopen closes the journal and its store, and opens both again.
func (f *fixture) reopen(t testing.TB, keys ...string) {
	t.Helper()
	f.shut(t)
	j, err := open(t, f.path, Config{Signer: f.signer, Keys: keys, Now: f.now})
	if err != nil {
		t.Fatal(err)
	}
	f.Journal = j
}

func (f *fixture) shut(t testing.TB) {
	t.Helper()
	if f.Journal == nil {
		return
	}
	if err := f.Journal.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := f.db.Close(); err != nil {
		t.Fatal(err)
	}
	f.Journal = nil
}

func (f *fixture) keys() []string { return []string{f.signer.Verifier()} }

func event(i int) palyra.Event {
	call := palyra.CallID(fmt.Sprintf("01JCQ0000000000000%08d", i/4))
	switch i % 4 {
	case 0:
		return palyra.CallProposed{
			Call: call, Session: "01JCQ0000000000000SESSION0", Principal: "agent:local", Surface: palyra.SurfaceMCP,
			Tool: "palyra.fs.read", Workspace: "/home/alice/project", InputBytes: 120, Input: palyra.SumBytes([]byte{byte(i)}),
		}
	case 1:
		return palyra.CallJudged{
			Call: call, Plan: palyra.SumBytes([]byte{1}), Effect: palyra.Allow, Policies: []string{"base.read"},
			Bundle: palyra.SumBytes([]byte{2}), Snapshot: palyra.SumBytes([]byte{3}),
		}
	case 2:
		return palyra.CallGranted{Call: call, Grant: "01JCQ0000000000000GRANT000", Plan: palyra.SumBytes([]byte{1}), Tier: "c"}
	}
	return palyra.DoorFlood{Door: "agent", Reason: palyra.ReasonRateLimited, Count: int64(i)}
}

// fill records n events, some in one transaction.
func (f *fixture) fill(t testing.TB, n int) {
	t.Helper()
	for i := 0; i < n; {
		var batch []palyra.Event
		for len(batch) <= i%5 && i < n {
			batch = append(batch, event(i))
			i++
		}
		if _, err := f.Record(context.Background(), batch...); err != nil {
			t.Fatal(err)
		}
	}
}

// raw opens the state file beside the journal, as an intruder would.
func (f *fixture) raw(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+f.path+"?_pragma=synchronous(OFF)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	for _, name := range []string{"update", "delete"} {
		mustExec(t, db, "DROP TRIGGER IF EXISTS journal_entries_"+name)
	}
	return db
}

func mustExec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// verify runs the offline verification on the file.
func (f *fixture) verify(t testing.TB) (Report, error) {
	t.Helper()
	return VerifyFile(context.Background(), f.path, f.keys(), nil)
}

func mustVerify(t testing.TB, r Report, err error) Report {
	t.Helper()
	if err != nil || r.Problem != nil {
		t.Fatalf("%+v %v", r, err)
	}
	return r
}

// wantProblem checks that a verification failed, both ways, at an entry.
func wantProblem(t testing.TB, r Report, err error, seq int64) {
	t.Helper()
	if err == nil || r.Problem == nil {
		t.Errorf("not noticed: %+v", r)
		return
	}
	if palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("error %v", err)
	}
	if p := r.Problem; p.Seq != seq && (p.Through == 0 || seq < p.Seq || seq > p.Through) {
		t.Errorf("problem %v, want entry %d", p, seq)
	}
}

// wantEntry is wantProblem for a problem that must name the very entry.
func wantEntry(t testing.TB, r Report, err error, seq int64) {
	t.Helper()
	wantProblem(t, r, err, seq)
	if p := r.Problem; p != nil && (p.Seq != seq || p.Through != 0) {
		t.Errorf("problem %v, want entry %d alone", p, seq)
	}
}

func TestLifetime(t *testing.T) {
	f := newFixture(t)
	empty, err := f.Head(t.Context())
	if err != nil || empty.Size != 0 || empty.Root != palyra.SumBytes(nil) {
		t.Errorf("an empty journal's head: %+v, %v", empty, err)
	}
	if _, err := OpenCheckpoint(empty.Note, f.keys()); err != nil {
		t.Errorf("an empty journal's head: %v", err)
	}
	r, err := f.Verify(t.Context(), nil)
	mustVerify(t, r, err)
	f.fill(t, 700)
	r, err = f.Verify(t.Context(), nil)
	mustVerify(t, r, err)
	f.reopen(t)
	f.fill(t, 300)
	r, err = f.Verify(t.Context(), nil)
	if mustVerify(t, r, err).Size != 1000 || r.From != 1 || r.To != 1000 || r.Checkpoints < 3 {
		t.Errorf("report %+v", r)
	}
	head, err := f.Head(t.Context())
	if err != nil || head.Size != 1000 || head.Root != r.Root || head.Chain != r.Chain || head.Key != r.Key {
		t.Errorf("head %+v, %v; report %+v", head, err, r)
	}
	f.shut(t)
	r, err = f.verify(t)
	if mustVerify(t, r, err).Root != head.Root || r.Source != "database" {
		t.Errorf("report %+v", r)
	}
}

// The formulas of the package comment, worked out by hand.
func TestFormulas(t *testing.T) {
	f := newFixture(t)
	pos, err := f.Record(t.Context(), palyra.DoorFlood{Door: "agent", Reason: palyra.ReasonRateLimited, Count: 7})
	if err != nil {
		t.Fatal(err)
	}
	entry := "m4:s4:bodym3:s5:countn1:7s4:doors5:agents11:reason_codes12:rate_limited" +
		"s4:kinds10:door.floods3:seqn1:1s4:times24:2026-11-15T10:00:00.002Z"
	leaf := sha256.Sum256([]byte("\x00" + entry))
	start := sha256.Sum256([]byte("\x02" + testOrigin))
	chain := sha256.Sum256(slices.Concat([]byte{2}, start[:], leaf[:]))
	head, err := f.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (palyra.Position{Seq: 1, Leaf: digest(leaf)}); pos != want {
		t.Errorf("position %v, want %v", pos, want)
	}
	if head.Root != digest(leaf) || head.Chain != digest(chain) {
		t.Errorf("head %+v, want root %v and chain %v", head, digest(leaf), digest(chain))
	}
	want := fmt.Sprintf("%s\n1\n%s\nchain %s\ntime 2026-11-15T10:00:00.003Z\n\n— %s ", testOrigin,
		base64.StdEncoding.EncodeToString(leaf[:]), base64.StdEncoding.EncodeToString(chain[:]), testOrigin)
	if !strings.HasPrefix(head.Note, want) {
		t.Errorf("note %q, want %q…", head.Note, want)
	}
}

func TestNewRefuses(t *testing.T) {
	broken := newSigner(testOrigin, 1)
	broken.fail = errors.New("no key")
	for name, c := range map[string]Config{
		"no signer":      {},
		"broken signer":  {Signer: broken},
		"foreign line":   {Signer: lyingSigner{newSigner(testOrigin, 1), newSigner(testOrigin, 2).Verifier()}},
		"other name":     {Signer: lyingSigner{newSigner(testOrigin, 1), newSigner("other", 1).Verifier()}},
		"malformed line": {Signer: lyingSigner{newSigner(testOrigin, 1), "nonsense"}},
		"other origin":   {Signer: newSigner(testOrigin, 1), Origin: "elsewhere"},
		"bad old key":    {Signer: newSigner(testOrigin, 1), Keys: []string{"nonsense"}},
	} {
		if _, err := open(t, filepath.Join(t.TempDir(), "state.db"), c); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := New(t.Context(), Config{Signer: newSigner(testOrigin, 1)}); err == nil {
		t.Error("opened without a store")
	}
}

// lyingSigner claims another key than it signs with.
type lyingSigner struct {
	*testSigner
	line string
}

func (l lyingSigner) Verifier() string { return l.line }

func TestRotation(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	old, next := f.signer, newSigner(testOrigin, 2)
	if err := f.SetSigner(newSigner("other", 3)); err == nil {
		t.Error("a key with another name was taken")
	}
	if err := f.SetSigner(nil); err == nil {
		t.Error("no key was taken")
	}
	if err := f.SetSigner(next); err != nil {
		t.Fatal(err)
	}
	f.signer = next
	f.fill(t, 300)
	if head, _ := f.Head(t.Context()); !strings.HasPrefix(next.Verifier(), head.Key+"+") {
		t.Errorf("head signed by %s, want %s", head.Key, next.Verifier())
	}
	r, err := f.Verify(t.Context(), nil)
	mustVerify(t, r, err)
	if err := f.SetSigner(next); err != nil || len(f.Journal.keys.list) != 2 {
		t.Errorf("%d keys known, %v", len(f.Journal.keys.list), err)
	}

	f.shut(t)
	both := []string{old.Verifier(), next.Verifier()}
	r, err = VerifyFile(t.Context(), f.path, both, nil)
	mustVerify(t, r, err)
	r, err = VerifyFile(t.Context(), f.path, both[1:], nil) // the checkpoints of the old key
	wantProblem(t, r, err, 260)
	if _, err := open(t, f.path, Config{Signer: newSigner(testOrigin, 3)}); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("opened without knowing the key of the head: %v", err)
	}
	if _, err := open(t, f.path, Config{Signer: newSigner(testOrigin, 3), Keys: both}); err != nil {
		t.Error(err)
	}
}

func TestCheckpointsAreKept(t *testing.T) {
	f := newFixture(t)
	kept := func() (sizes []int64) {
		t.Helper()
		rows, err := f.raw(t).Query("SELECT size FROM journal_checkpoints ORDER BY size")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var n int64
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, n)
		}
		return sizes
	}
	for i := range 300 {
		if _, err := f.Record(t.Context(), event(i)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int64{256}, kept()); diff != "" {
		t.Error("by number:", diff)
	}
	f.clock = f.clock.Add(time.Minute)
	for i := range 3 {
		if _, err := f.Record(t.Context(), event(i)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int64{256, 301}, kept()); diff != "" {
		t.Error("by time:", diff)
	}
	f.reopen(t)
	f.reopen(t)
	if diff := cmp.Diff([]int64{256, 301, 303}, kept()); diff != "" {
		t.Error("at close, once:", diff)
	}
	r, err := f.Verify(t.Context(), nil)
	if mustVerify(t, r, err).Checkpoints != 3 {
		t.Errorf("report %+v", r)
	}
}

func jsonInt(n int) json.Number { return json.Number(strconv.Itoa(n)) }

func unixNano(n int64) time.Time { return time.Unix(0, n) }
