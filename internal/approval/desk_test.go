package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/ulid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is a recorder that keeps its lines in a table of the same store, so
// that they share the fate of the transaction they came in. A call outside a
// write transaction fails.
type journal struct {
	fail func(palyra.Event) error
}

var journalSchema = store.Schema{Part: "testjournal", FS: fstest.MapFS{
	"sqlite/0001_lines.sql": {
		Data: []byte("-- +goose Up\nCREATE TABLE lines (seq BIGINT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL);\n"),
	},
}}

func (j *journal) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	if j.fail != nil {
		if err := j.fail(e); err != nil {
			return palyra.Position{}, err
		}
	}
	body, err := json.Marshal(e)
	if err != nil {
		return palyra.Position{}, err
	}
	var seq int64
	if err := tx.Get(`SELECT COUNT(*) + 1 FROM lines`, nil, &seq); err != nil {
		return palyra.Position{}, err
	}
	_, err = tx.Exec(`INSERT INTO lines (seq, kind, body) VALUES (?, ?, ?)`, seq, e.Kind(), string(body))
	return palyra.Position{Seq: seq}, err
}

// world is a desk with its store, its journal and hands on both clocks.
type world struct {
	t       testing.TB
	desk    *Desk
	db      *store.DB
	engine  *sqlite.Engine
	journal *journal
	cfg     Config

	mu    sync.Mutex
	wall  time.Time
	boot  string
	since time.Duration
	ended []palyra.LeaseID
}

var epoch = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, journal: &journal{}, wall: epoch, boot: "boot-1", since: time.Hour}
	engine, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	w.engine = engine
	w.db, err = store.Open(t.Context(), engine, journalSchema, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
	w.cfg = Config{
		DB: w.db, Journal: w.journal,
		Now:   func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.wall },
		Boot:  func() (string, time.Duration) { w.mu.Lock(); defer w.mu.Unlock(); return w.boot, w.since },
		NewID: newID, DenyHold: 5 * time.Minute,
	}
	for _, c := range change {
		c(&w.cfg)
	}
	w.restart()
	return w
}

// newID is not bound to the fake clocks: ids only have to rise.
func newID() palyra.ID { return palyra.ID(ulid.New(time.Now())) }

// restart makes a new desk over the same store, as a new daemon does.
func (w *world) restart() {
	w.t.Helper()
	desk, err := New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.desk = desk
	desk.OnLeaseEnd(func(id palyra.LeaseID) { w.mu.Lock(); defer w.mu.Unlock(); w.ended = append(w.ended, id) })
}

// pass lets time go by on both clocks.
func (w *world) pass(d time.Duration) { w.jump(d, d) }

func (w *world) jump(wall, since time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wall, w.since = w.wall.Add(wall), w.since+since
}

// reboot starts a new boot with the wall clock moved.
func (w *world) reboot(boot string, wall time.Duration) {
	w.mu.Lock()
	w.wall, w.boot, w.since = w.wall.Add(wall), boot, time.Second
	w.mu.Unlock()
	w.restart()
}

func (w *world) endedLeases() []palyra.LeaseID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ended)
}

// record does what the call ledger does: journal and apply in one transaction.
func (w *world) record(c *palyra.Call, events ...palyra.Event) error {
	return w.db.Write(context.Background(), events[len(events)-1].Kind(), func(tx *store.Tx) error {
		for _, e := range events {
			if _, err := w.journal.Append(tx, e); err != nil {
				return err
			}
			if err := w.desk.Apply(tx, c, e); err != nil {
				return err
			}
		}
		return nil
	})
}

type callOption func(*palyra.Call)

func withNeed(n palyra.Need) callOption { return func(c *palyra.Call) { c.Verdict.Need = n } }
func inSession(id palyra.SessionID) callOption {
	return func(c *palyra.Call) { c.Proposal.Session = id }
}
func by(p palyra.Principal) callOption { return func(c *palyra.Call) { c.Proposal.Principal = p } }

const (
	session1 palyra.SessionID = "01JSESSION0000000000000001"
	session2 palyra.SessionID = "01JSESSION0000000000000002"
)

// call is a judged write to a file, which asks.
func call(t testing.TB, file string, options ...callOption) *palyra.Call {
	t.Helper()
	args, _ := json.Marshal(map[string]any{"path": file, "content": "hello <&> \u2028"})
	c := &palyra.Call{
		ID: palyra.CallID(newID()), State: palyra.Pending,
		Proposal: palyra.Proposal{
			Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:alice", PeerUID: 1000, Surface: palyra.SurfaceCLI, Session: session1},
		},
		Plan: palyra.Plan{
			Tool: "palyra.fs.write", Arguments: args, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin,
			Capabilities: []palyra.Capability{palyra.FilesystemWrite}, Workspace: palyra.WorkspaceRef{Path: "/w", Owner: 1000, Known: true},
			Writes: []string{file}, Detail: palyra.Detail{Summary: "write " + file, Diff: "+hello\n", Notes: []string{"new file"}},
		},
		Verdict: palyra.Verdict{
			Effect: palyra.Ask, Need: palyra.Need{Votes: 1}, Risk: palyra.Risk{Level: palyra.RiskMedium, Factors: []string{"writes"}},
			Policies: []palyra.PolicyHit{{ID: "ask-writes", Effect: "permit", Reason: "writes are asked about", File: "default.cedar", Line: 7}},
			Bundle:   palyra.SumBytes([]byte("bundle")), Snapshot: palyra.SumBytes([]byte("snapshot")),
		},
	}
	for _, o := range options {
		o(c)
	}
	var err error
	if c.Digest, err = c.Plan.Digest(); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask takes a call through the question, as the gate does, and returns it.
func (w *world) ask(c *palyra.Call) palyra.Approval {
	w.t.Helper()
	a, err := w.tryAsk(c)
	if err != nil {
		w.t.Fatalf("ask: %v", err)
	}
	return a
}

func (w *world) tryAsk(c *palyra.Call) (palyra.Approval, error) {
	a, joined, err := w.desk.Prepare(context.Background(), c)
	if err != nil {
		return palyra.Approval{}, err
	}
	c.Approval = a.ID
	if joined {
		return a, w.record(c, palyra.ApprovalJoined{Approval: a.ID, Call: c.ID})
	}
	return a, w.record(c, requested(c, a))
}

func requested(c *palyra.Call, a palyra.Approval) palyra.ApprovalRequested {
	prompt, _ := a.Prompt.Digest()
	var shown palyra.Digest
	if a.Plan.Masked {
		shown, _ = a.Plan.Digest()
	}
	return palyra.ApprovalRequested{
		Shown:    shown,
		Approval: a.ID, Call: c.ID, Principal: a.Principal, SubjectType: a.SubjectType, SubjectID: a.SubjectID,
		Plan: a.PlanDigest, Prompt: prompt, Need: a.Need, ExpiresAt: a.ExpiresAt, Record: a,
	}
}

type voteOption func(*palyra.Vote)

func scoped(s palyra.Scope) voteOption        { return func(v *palyra.Vote) { v.Scope = s } }
func ttl(d time.Duration) voteOption          { return func(v *palyra.Vote) { v.TTLMS = d.Milliseconds() } }
func widened(name string) voteOption          { return func(v *palyra.Vote) { v.Widen = name } }
func uses(n int64) voteOption                 { return func(v *palyra.Vote) { v.Uses = n } }
func from(p palyra.Principal) voteOption      { return func(v *palyra.Vote) { v.By = p } }
func level(s palyra.Separation) voteOption    { return func(v *palyra.Vote) { v.Separation = s } }
func echoing(d palyra.Digest) voteOption      { return func(v *palyra.Vote) { v.Digest = d } }
func changed(f func(*palyra.Vote)) voteOption { return f }

func vote(a palyra.Approval, answer palyra.Answer, options ...voteOption) palyra.Vote {
	v := palyra.Vote{
		Approval: a.ID, Answer: answer, By: "user:alice", Method: palyra.MethodCLI, PeerUID: 1000, Digest: a.PlanDigest,
		Separation: palyra.SeparationNone,
		Signature: palyra.Signature{
			Intent:    palyra.Intent{Method: "palyra.v1.ApprovalsService/DecideApproval", PlanDigest: a.PlanDigest, KeyID: "k1"},
			Fields:    map[string]any{"approval_id": string(a.ID), "big": json.Number("9007199254740993")},
			PublicKey: "cHVi", Sig: "c2ln",
		},
	}
	if answer == palyra.AnswerAllow {
		v.Scope = palyra.ScopeOnce
	}
	for _, o := range options {
		o(&v)
	}
	return v
}

func (w *world) decide(a palyra.Approval, answer palyra.Answer, options ...voteOption) palyra.Approval {
	w.t.Helper()
	out, err := w.desk.Decide(context.Background(), vote(a, answer, options...))
	if err != nil {
		w.t.Fatalf("decide %s: %v", answer, err)
	}
	return out
}

// grant takes a use of the lease for the call.
func (w *world) grant(c *palyra.Call, lease palyra.LeaseID) error {
	return w.record(c, palyra.CallGranted{Call: c.ID, Grant: palyra.GrantID(newID()), Plan: c.Digest, Lease: lease})
}

func (w *world) get(id palyra.ApprovalID) palyra.Approval {
	w.t.Helper()
	a, err := w.desk.Get(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) covered(c *palyra.Call) (palyra.Decision, bool) {
	w.t.Helper()
	d, ok, err := w.desk.Cover(context.Background(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return d, ok
}

// kinds returns the kinds of the journal's lines, in order.
func (w *world) kinds() []string {
	w.t.Helper()
	var kinds []string
	for _, l := range w.lines("") {
		kinds = append(kinds, l.kind)
	}
	return kinds
}

type line struct {
	kind string
	body map[string]any
}

// lines returns the journal, or its lines of a kind.
func (w *world) lines(kind string) []line {
	w.t.Helper()
	var list []line
	err := w.db.Read(context.Background(), func(tx *store.Tx) error {
		return tx.Each(`SELECT kind, body FROM lines ORDER BY seq`, nil, func(scan func(...any) error) error {
			var l line
			var body string
			if err := scan(&l.kind, &body); err != nil {
				return err
			}
			if kind == "" || kind == l.kind {
				list = append(list, l)
				return json.Unmarshal([]byte(body), &list[len(list)-1].body)
			}
			return nil
		})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// wantErr fails unless err has the code and the reason.
func wantErr(t testing.TB, err error, code palyra.Code, reason palyra.Reason) {
	t.Helper()
	var e *palyra.Error
	if !errors.As(err, &e) || e.Code != code || e.Reason != reason {
		t.Errorf("error %v (%s), want %s/%s", err, describe(err), code, reason)
	}
}

func describe(err error) string {
	var e *palyra.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s/%s", e.Code, e.Reason)
	}
	return "no palyra.Error"
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*Config){
		"no store":      func(c *Config) { c.DB = nil },
		"no journal":    func(c *Config) { c.Journal = nil },
		"no clock":      func(c *Config) { c.Now = nil },
		"no boot":       func(c *Config) { c.Boot = nil },
		"no ids":        func(c *Config) { c.NewID = nil },
		"no boot id":    func(c *Config) { c.Boot = func() (string, time.Duration) { return "", 0 } },
		"negative wait": func(c *Config) { c.Wait = -1 },
		"short max ttl": func(c *Config) { c.MaxTTL = time.Millisecond },
		"negative most": func(c *Config) { c.MaxPending = -1 },
	} {
		c := w.cfg
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A journal that cannot be written takes the change with it.
func TestNothingWithoutItsJournalLine(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	for _, kind := range []string{"approval.decided", "grant.created"} {
		w.journal.fail = func(e palyra.Event) error {
			if e.Kind() == kind {
				return errors.New("journal is gone")
			}
			return nil
		}
		if _, err := w.desk.Decide(t.Context(), vote(a, palyra.AnswerAllow)); err == nil || !strings.Contains(err.Error(), "journal is gone") {
			t.Fatalf("%s: decided without its line: %v", kind, err)
		}
		if got := w.get(a.ID); !got.Pending() || len(got.Votes) != 0 {
			t.Fatalf("%s: something remained: %+v", kind, got.Decision)
		}
	}
	w.journal.fail = nil
	w.decide(a, palyra.AnswerAllow)
}
