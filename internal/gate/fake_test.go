package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra"
)

// world is a set of parts that check what the gate owes them: every fake fails
// the test when it is called out of order or with something it should not get.
type world struct {
	t     *testing.T
	mu    sync.Mutex
	trace []string // what happened, in order
	ids   int

	// The ledger.
	rows     map[palyra.CallID]palyra.Call
	journal  []palyra.Event
	failAt   int  // the n-th Record fails; 0: none
	kept     bool // it fails after it kept everything
	records  int
	refuse   func(palyra.Event) error // the world moved: nothing is written
	labels   func() ([]string, error)
	recordIn func(kinds []string)    // what recording takes
	covers   func(*palyra.Call) bool // nil: the lease covers every call

	// The other parts.
	admit     func() (palyra.Tool, error)
	resolve   func() (palyra.Plan, error)
	resolveIn func(context.Context) error                // what resolving takes
	resolveAs func(context.Context) (palyra.Plan, error) // instead of both
	foresee   func(context.Context, *palyra.Call) (func(bool), error)
	verdict   func(palyra.Request) palyra.Verdict
	lease     *palyra.Decision
	joined    bool
	desk      func(context.Context) (palyra.Decision, error)
	execute   func(context.Context, palyra.Launch) palyra.Result
	sign      func(context.Context) error
	unready   error                                         // nothing can be signed
	signs     func(context.Context, palyra.Predicate) error // looks at what it signs
	signed    []palyra.Predicate

	heard   []palyra.Event
	log     *slog.Logger // nil: nobody reads it
	runs    int
	granted map[palyra.GrantID]palyra.Position

	unsettled bool // the runner does not settle changes now
}

const (
	callID     = palyra.CallID("C1")
	approvalID = palyra.ApprovalID("A1")
	keepID     = palyra.ApprovalID("K1") // of the question about changes
	leaseID    = palyra.LeaseID("L1")
)

var (
	errDisk = palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "the disk is full")
	noon    = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t: t, rows: map[palyra.CallID]palyra.Call{}, granted: map[palyra.GrantID]palyra.Position{},
		admit: func() (palyra.Tool, error) {
			return palyra.Tool{Name: "palyra.fs.write", Tier: palyra.TierBuiltin}, nil
		},
		resolve: func() (palyra.Plan, error) { return plan("a.txt"), nil },
		verdict: always(palyra.Allow),
		desk: func(ctx context.Context) (palyra.Decision, error) {
			<-ctx.Done()
			return palyra.Decision{}, ctx.Err()
		},
		execute: func(context.Context, palyra.Launch) palyra.Result {
			return palyra.Result{Output: json.RawMessage(`{"ok":true}`), Stdout: []byte("done"), Executor: "builtin"}
		},
	}
}

func plan(path string) palyra.Plan {
	return palyra.Plan{
		Tool: "palyra.fs.write", Arguments: json.RawMessage(`{"path":"` + path + `"}`), Writes: []string{path}, Tier: palyra.TierBuiltin,
		Limits: palyra.Limits{WallMS: 1000}, Detail: palyra.Detail{Diff: "+x"},
	}
}

func always(e palyra.Effect) func(palyra.Request) palyra.Verdict {
	return func(palyra.Request) palyra.Verdict {
		return palyra.Verdict{Effect: e, Policies: []palyra.PolicyHit{{ID: "p-" + e.String()}}, Reason: "because " + e.String(), Remedy: "remedy"}
	}
}

// asking asks until it is shown an answer, then says after.
func asking(after palyra.Effect) func(palyra.Request) palyra.Verdict {
	return func(r palyra.Request) palyra.Verdict {
		if r.Approval == nil {
			v := always(palyra.Ask)(r)
			v.Need = palyra.Need{Votes: 1}
			return v
		}
		return always(after)(r)
	}
}

func answered(a palyra.Answer) palyra.Decision {
	d := palyra.Decision{Approval: approvalID, Answer: a, By: "user:alice", Method: palyra.MethodCLI, Digest: digestOf(plan("a.txt"))}
	if a == palyra.AnswerAllow {
		d.Scope, d.Lease, d.Separation = palyra.ScopeOnce, leaseID, palyra.SeparationPassphrase
	}
	return d
}

func answers(a palyra.Answer) func(context.Context) (palyra.Decision, error) {
	return func(context.Context) (palyra.Decision, error) { return answered(a), nil }
}

func digestOf(p palyra.Plan) palyra.Digest {
	d, err := p.Digest()
	if err != nil {
		panic(err)
	}
	return d
}

func (w *world) gate() *Gate {
	w.t.Helper()
	g, err := New(Config{
		Ledger: w, Catalog: w, Planner: w, Judge: judgeFunc(w.judge), Desk: deskOf{w}, Runner: w, Attester: w,
		NewID: w.newID, Now: func() time.Time { return noon }, Log: w.log, Foresee: w.foresee,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

func (w *world) newID() palyra.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return palyra.ID(fmt.Sprintf("N%d", w.ids))
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// watch hears events; each must be durable already, and in the same order.
func (w *world) watch(_ *palyra.Call, events ...palyra.Event) {
	for _, e := range events {
		w.hear(e)
	}
}

func (w *world) hear(e palyra.Event) {
	w.note("heard %s", e.Kind())
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.heard); n >= len(w.journal) || w.journal[n].Kind() != e.Kind() {
		w.t.Errorf("heard %s, which is not the next durable line", e.Kind())
	}
	w.heard = append(w.heard, e)
}

// Record is the ledger.
func (w *world) Record(ctx context.Context, c *palyra.Call, events ...palyra.Event) (palyra.Position, error) {
	w.checkRecordContext(ctx)
	kinds := kindsOf(events)
	if w.recordIn != nil {
		w.recordIn(kinds)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records++
	fail := w.records == w.failAt
	for _, e := range events {
		if w.refuse != nil {
			if err := w.refuse(e); err != nil {
				w.trace = append(w.trace, fmt.Sprintf("conflict %v", kinds))
				return palyra.Position{}, err
			}
		}
	}
	if fail && !w.kept {
		w.trace = append(w.trace, fmt.Sprintf("lost %v", kinds))
		return palyra.Position{}, errDisk
	}
	if row, ok := w.rows[c.ID]; ok != (c.Stored != "") || (ok && row.State != c.Stored) {
		w.trace = append(w.trace, fmt.Sprintf("stale %v", kinds))
		return palyra.Position{}, palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "call %s is %s already", c.ID, row.State)
	}
	w.checkMove(c, events)
	w.rows[c.ID] = copyOf(w.t, c)
	w.journal = append(w.journal, events...)
	pos := palyra.Position{Seq: int64(len(w.journal)), Leaf: palyra.SumBytes(fmt.Append(nil, len(w.journal)))}
	for _, e := range events {
		if g, ok := e.(palyra.CallGranted); ok {
			w.granted[g.Grant] = pos
		}
	}
	if fail {
		w.trace = append(w.trace, fmt.Sprintf("kept, unacknowledged %v", kinds))
		return palyra.Position{}, errDisk
	}
	w.trace = append(w.trace, fmt.Sprintf("record %v", kinds))
	c.Stored = c.State
	return pos, nil
}

// Labels is the ledger.
func (w *world) Labels(ctx context.Context, c *palyra.Call) ([]string, error) {
	w.checkRecordContext(ctx)
	if c.ID != callID {
		w.t.Errorf("the labels of another call: %+v", c)
	}
	if w.labels == nil {
		return nil, nil
	}
	return w.labels()
}

func (w *world) checkRecordContext(ctx context.Context) {
	if ctx.Err() != nil {
		w.t.Errorf("a record that stops with its caller: %v", ctx.Err())
	}
	if _, ok := ctx.Deadline(); !ok {
		w.t.Error("a record without a deadline of its own")
	}
}

// checkMove holds the call's durable life against the state table: there must
// be a way from the row kept to the state given, and the last line must be the
// one that tells of it.
func (w *world) checkMove(c *palyra.Call, events []palyra.Event) {
	from := palyra.Proposed
	if row, ok := w.rows[c.ID]; ok {
		from = row.State
		if from.Ended() {
			w.t.Errorf("%s is %s and is recorded again as %s", c.ID, from, c.State)
		}
	} else if events[0].Kind() != "call.proposed" {
		w.t.Errorf("the first line of a call is %s", events[0].Kind())
	}
	if from != c.State && !way(from, c.State) {
		w.t.Errorf("recorded as %s after %s", c.State, from)
	}
	want := map[palyra.State]string{
		palyra.Granted: "call.granted", palyra.Refused: "call.refused", palyra.Finished: "call.finished", palyra.Cancelled: "call.cancelled",
		palyra.Checked: "call.checked", palyra.Unknown: "call.unknown", palyra.Observed: "call.observed",
	}[c.State]
	last := events[len(events)-1].Kind()
	if c.State == palyra.Settling {
		if last != "call.settling" && last != "approval.requested" {
			w.t.Errorf("settling, but the last line is %s", last)
		}
	} else if c.State == palyra.Pending {
		if last != "approval.requested" && last != "approval.joined" {
			w.t.Errorf("pending, but the last line is %s", last)
		}
	} else if last != want {
		w.t.Errorf("%s, but the last line is %s", c.State, last)
	}
	if c.State.Ended() != (c.Outcome != nil && !c.Finished.IsZero()) {
		w.t.Errorf("%s with outcome %v, finished %v", c.State, c.Outcome, c.Finished)
	}
}

func way(from, to palyra.State) bool {
	for _, s := range palyra.States() {
		if from.MayBecome(s) && (s == to || way(s, to)) {
			return true
		}
	}
	return false
}

// copyOf is what a database would give back. As the real ledger does, it keeps
// no arguments that were never admitted: they may be no JSON at all.
func copyOf(t *testing.T, c *palyra.Call) palyra.Call {
	t.Helper()
	keep := *c
	if c.Tool.Name == "" {
		keep.Proposal.Arguments = nil
	}
	b, err := json.Marshal(keep)
	if err != nil {
		t.Fatal(err)
	}
	var out palyra.Call
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func kindsOf(events []palyra.Event) []string {
	kinds := []string{}
	for _, e := range events {
		kinds = append(kinds, e.Kind())
	}
	return kinds
}

// Admit is the catalogue.
func (w *world) Admit(context.Context, palyra.Proposal) (palyra.Tool, error) {
	w.note("admit")
	return w.admit()
}

// Resolve is the planner.
func (w *world) Resolve(ctx context.Context, c *palyra.Call) (palyra.Plan, error) {
	w.note("resolve")
	if c.Tool.Name == "" {
		w.t.Error("resolved before it was admitted")
	}
	if w.resolveAs != nil {
		return w.resolveAs(ctx)
	}
	if w.resolveIn != nil {
		if err := w.resolveIn(ctx); err != nil {
			return palyra.Plan{}, err
		}
	}
	return w.resolve()
}

type judgeFunc func(palyra.Request) palyra.Verdict

func (f judgeFunc) Judge(_ context.Context, r palyra.Request) palyra.Verdict { return f(r) }

func (w *world) judge(r palyra.Request) palyra.Verdict {
	w.note("judge %t", r.Approval != nil)
	if r.Plan.Tool == "" || r.Call != callID {
		w.t.Errorf("judged without a plan: %+v", r)
	}
	return w.verdict(r)
}

type deskOf struct{ w *world }

func (d deskOf) Cover(_ context.Context, c *palyra.Call) (palyra.Decision, bool, error) {
	d.w.note("cover")
	if d.w.lease == nil || d.w.covers != nil && !d.w.covers(c) {
		return palyra.Decision{}, false, nil
	}
	return *d.w.lease, true, nil
}

func (d deskOf) Prepare(_ context.Context, c *palyra.Call) (palyra.Approval, bool, error) {
	d.w.note("prepare")
	if c.Plan.Detail.Diff == "" {
		d.w.t.Error("the question has nothing to show")
	}
	id := approvalID
	if c.Plan.Effects != nil {
		id = keepID
	}
	return palyra.Approval{
		ID: id, Call: c.ID, PlanDigest: c.Digest, Plan: c.Plan, SubjectType: palyra.SubjectTool, Need: c.Verdict.Need, ExpiresAt: noon,
	}, d.w.joined, nil
}

func (d deskOf) Wait(ctx context.Context, id palyra.ApprovalID) (palyra.Decision, error) {
	d.w.note("wait")
	d.w.mu.Lock()
	row, ok := d.w.rows[callID]
	d.w.mu.Unlock()
	held := row.State == palyra.Settling && row.Keep.Approval == id && id == keepID && len(row.Keep.Result) > 0
	if !ok || !held && (row.State != palyra.Pending || row.Approval != id || id != approvalID) {
		d.w.t.Errorf("waits for %s while the durable call is %s with %s", id, row.State, row.Approval)
	}
	return d.w.desk(ctx)
}

func (d deskOf) Facts(_ palyra.Principal, dec palyra.Decision) palyra.ApprovalFacts {
	return palyra.ApprovalFacts{Votes: 1, Scope: dec.Scope, Fresh: !dec.Reused}
}

// Run is the runner: its grant must be on record, for this very plan.
func (w *world) Run(ctx context.Context, g palyra.Launch, c *palyra.Call) palyra.Result {
	w.note("run")
	w.mu.Lock()
	w.runs++
	row, pos := w.rows[c.ID], w.granted[g.Grant()]
	w.mu.Unlock()
	if !g.Valid() || pos.Seq == 0 {
		w.t.Errorf("grant %s runs without its line", g.Grant())
	}
	if row.State != palyra.Granted || row.Grant != g.Grant() || row.Digest != g.Digest() || g.Digest() != digestOf(g.Plan()) ||
		g.Call() != c.ID {
		w.t.Errorf("what runs (%s, %s) is not what is on record (%s, %s, %s)", g.Grant(), g.Digest(), row.State, row.Grant, row.Digest)
	}
	if _, ok := ctx.Deadline(); !ok {
		w.t.Error("a run without a deadline")
	}
	return w.execute(ctx, g)
}

// Settle is the runner's too: the changes it is about must be on record, and where they are kept so must be the
// answer.
func (w *world) Settle(ctx context.Context, c *palyra.Call, keep bool) palyra.Result {
	w.note("settle %t", keep)
	w.mu.Lock()
	row := w.rows[c.ID]
	w.mu.Unlock()
	if row.State != palyra.Settling || row.Keep == nil || row.Keep.Approval == "" && keep {
		w.t.Errorf("changes are settled while the durable call is %s", row.State)
	}
	if keep && row.Keep.Decision.Answer != palyra.AnswerAllow {
		w.t.Error("changes are kept and the answer is not on record")
	}
	if ctx.Err() != nil {
		w.t.Error("settling stops with the caller")
	}
	if w.unsettled {
		return palyra.Result{Refusal: &palyra.Refusal{Reason: palyra.ReasonStopping, Text: "stopping"}}
	}
	if keep {
		return palyra.Result{Effects: palyra.EffectsKept}
	}
	return palyra.Result{Effects: palyra.EffectsDropped}
}

// Attest is the attester.
func (w *world) Ready() error { return w.unready }

func (w *world) Attest(ctx context.Context, p palyra.Predicate) (palyra.Attestation, error) {
	w.note("attest")
	if ctx.Err() != nil {
		w.t.Errorf("the signature stops with the caller: %v", ctx.Err())
	}
	if w.sign != nil {
		if err := w.sign(ctx); err != nil {
			return palyra.Attestation{}, err
		}
	}
	if w.signs != nil {
		if err := w.signs(ctx, p); err != nil {
			return palyra.Attestation{}, err
		}
	}
	if p.Granted != w.granted[p.GrantID] || p.Granted.Seq == 0 {
		w.t.Errorf("the attestation names the granted line %+v, which stands at %+v", p.Granted, w.granted[p.GrantID])
	}
	if p.ExecutionSHA256 != "" {
		w.t.Errorf("execution digest %s: it is the attester's to make", p.ExecutionSHA256)
	}
	return palyra.Attestation{
		ID: p.AttestationID, Call: p.CallID, Digest: palyra.SumBytes([]byte(p.ExecutionSHA256)), Predicate: p,
		Envelope: palyra.Envelope{
			PayloadType: palyra.PayloadType, Payload: "e30=",
			Signatures: []palyra.EnvelopeSignature{{KeyID: "k", Sig: "s"}},
		},
	}, nil
}

// do takes the standard proposal through a gate made of w.
func (w *world) do(ctx context.Context) (palyra.Outcome, error) {
	w.t.Helper()
	return w.doWith(ctx, palyra.Proposal{
		Proposer:  palyra.Proposer{Principal: "agent:local", Owner: "user:alice", Surface: palyra.SurfaceCLI, Session: "S1"},
		Tool:      "palyra.fs.write",
		Arguments: json.RawMessage(`{"path":"a.txt"}`),
	})
}

func (w *world) doWith(ctx context.Context, p palyra.Proposal) (palyra.Outcome, error) {
	w.t.Helper()
	out, err := w.gate().Do(ctx, callID, p, Watcher{Events: w.watch})
	w.checkEnd(out, err)
	return out, err
}

// checkEnd holds what the agent got against what is on record.
func (w *world) checkEnd(out palyra.Outcome, err error) {
	w.t.Helper()
	row := w.rows[callID]
	if err != nil {
		if out.Outcome != "" || out.Output != nil || out.Stdout != "" {
			w.t.Errorf("an error, and yet an outcome: %+v", out)
		}
		return
	}
	if !row.State.Ended() || row.Outcome == nil {
		w.t.Fatalf("an outcome while the durable call is %s", row.State)
	}
	got, _ := out.Marshal()
	kept, _ := row.Outcome.Marshal()
	if string(got) != string(kept) {
		w.t.Errorf("the agent got %s\nbut on record is %s", got, kept)
	}
	if (out.Attestation != nil) != (row.State == palyra.Finished) {
		w.t.Errorf("%s with attestation %v", row.State, out.Attestation)
	}
	if w.runs > 0 && out.Outcome == palyra.OutcomeFinished && out.JournalPosition == 0 {
		w.t.Error("it ran and names no granted line")
	}
	if len(w.heard) != len(w.journal) && w.failAt == 0 {
		w.t.Errorf("heard %v of %v", kindsOf(w.heard), kindsOf(w.journal))
	}
}

// wantTrace compares what happened with want.
func (w *world) wantTrace(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.trace, want) {
		w.t.Errorf("happened:\n  %q\nwant:\n  %q", w.trace, want)
	}
}

// wantRefusal checks a refusal of a layer.
func (w *world) wantRefusal(out palyra.Outcome, err error, layer palyra.Layer, reason palyra.Reason) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("an error, not a refusal: %v", err)
	}
	if out.Outcome != palyra.OutcomeRefused || out.Layer != layer || out.ReasonCode != reason || out.Reason == "" {
		w.t.Errorf("%s by %s for %q (%q), want %s for %q", out.Outcome, out.Layer, out.ReasonCode, out.Reason, layer, reason)
	}
	last := w.journal[len(w.journal)-1]
	if r, ok := last.(palyra.CallRefused); !ok || r.Layer != layer || r.Reason != reason || r.Call != callID {
		w.t.Errorf("the last line is %+v", last)
	}
	if row := w.rows[callID]; row.State != palyra.Refused {
		w.t.Errorf("the durable call is %s", row.State)
	}
}

var errStop = errors.New("stop")
