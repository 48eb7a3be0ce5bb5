package run

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/gate"
	"palyra/internal/session"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/ulid"
)

// recorder is a recorder that keeps the kinds of what was committed.
type recorder struct {
	mu     sync.Mutex
	seq    int64
	kinds  []string
	events []palyra.Event
}

func (t *recorder) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	t.mu.Lock()
	t.seq++
	pos := palyra.Position{Seq: t.seq, Leaf: palyra.SumBytes([]byte(e.Kind()))}
	t.mu.Unlock()
	tx.OnDone(func(ok bool) {
		if ok {
			t.mu.Lock()
			t.kinds = append(t.kinds, e.Kind())
			t.events = append(t.events, e)
			t.mu.Unlock()
		}
	})
	return pos, nil
}

func (t *recorder) count(kind string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// world is a daemon around the package: real store and gate, scripted parts.
type world struct {
	t        *testing.T
	path     string
	db       *store.DB
	tape     *recorder
	ledger   *Ledger
	sessions *session.Sessions
	calls    *Calls
	runs     *Runs
	parts    *parts
	driver   Driver
	limits   palyra.Budget
	commit   func() error // asked before every commit
	ran      *ran
}

// ran counts how often each call was run, by its key, over all restarts.
type ran struct {
	mu   sync.Mutex
	keys map[string]int
}

func (r *ran) add(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key]++
}

func (r *ran) times(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key]
}

// driver is a Driver made of a function.
type driver func(context.Context, *Live) error

func (d driver) Accept(_ palyra.Run, input []byte) (Accepted, error) {
	if string(input) == "bad" {
		return Accepted{}, palyra.Errorf(palyra.Invalid, palyra.ReasonBadScript, "line 1: bad")
	}
	return Accepted{Title: "a title", Drive: d}, nil
}

// parts are the gate's neighbours. An argument {"ask":true} is asked about,
// {"deny":true} denied; the runner reports each start and waits for go.
type parts struct {
	mu       sync.Mutex
	answers  map[palyra.ApprovalID]chan palyra.Decision
	asked    chan palyra.ApprovalID
	started  chan palyra.CallID
	settled  chan settledChanges
	proceed  chan struct{}
	withdrew []palyra.ApprovalID
	stale    *atomic.Int64      // counts lines, none of which is taken
	inputs   sync.Map           // call → digest of its arguments, as attested
	full     int                // how many grants the disk has no room for
	fullEnd  int                // how many ends of granted calls it has no room for
	gone     chan palyra.CallID // calls that were given up
	calls    func() *Calls
	ran      *ran
	meet     *sync.WaitGroup // {"meet":true} waits here for the others
	judged   []palyra.Request
}

func (p *parts) saw(r palyra.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judged = append(p.judged, r)
}

// last is the request that was judged last.
func (p *parts) last() palyra.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judged[len(p.judged)-1]
}

type input struct {
	Ask, Deny, Hold, Meet, Feed, Deaf, Strict bool
	Weigh                                     bool // what it changes is asked about
	Print                                     []string
	Size                                      int      // of the output
	Secrets, Egress                           []string // of the plan
	Flows                                     []palyra.EgressFlow
}

func in(c *palyra.Call) (i input) { _ = json.Unmarshal(c.Proposal.Arguments, &i); return i }

func (p *parts) Admit(_ context.Context, pr palyra.Proposal) (palyra.Tool, error) {
	if pr.CallsMax > 0 && pr.CallsUsed >= pr.CallsMax {
		return palyra.Tool{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonBudgetSpent, "the run has made all of its %d calls", pr.CallsMax)
	}
	return palyra.Tool{Name: pr.Tool}, nil
}

func (p *parts) Resolve(_ context.Context, c *palyra.Call) (palyra.Plan, error) {
	i := in(c)
	return palyra.Plan{
		Tool: c.Tool.Name, Arguments: c.Proposal.Arguments, Tier: palyra.TierBuiltin, Limits: palyra.Limits{WallMS: 60000},
		Egress: i.Egress, Bindings: i.Secrets,
	}, nil
}

func (p *parts) Judge(_ context.Context, r palyra.Request) palyra.Verdict {
	i := in(&palyra.Call{Proposal: palyra.Proposal{Arguments: r.Plan.Arguments}})
	p.saw(r)
	switch {
	case r.Effects != nil && r.Approval == nil:
		return palyra.Verdict{Effect: palyra.Ask, Need: palyra.Need{Votes: 1}}
	case i.Deny || (i.Strict && r.Approval != nil):
		return palyra.Verdict{Effect: palyra.Deny}
	case i.Ask && r.Approval == nil:
		return palyra.Verdict{Effect: palyra.Ask, Need: palyra.Need{Votes: 1}}
	}
	return palyra.Verdict{Effect: palyra.Allow}
}

func (p *parts) Cover(context.Context, *palyra.Call) (palyra.Decision, bool, error) {
	return palyra.Decision{}, false, nil
}

func (p *parts) Prepare(_ context.Context, c *palyra.Call) (palyra.Approval, bool, error) {
	id := palyra.ApprovalID(ulid.New(time.Now()))
	return palyra.Approval{ID: id, Call: c.ID, PlanDigest: c.Digest}, false, nil
}

func (p *parts) channel(id palyra.ApprovalID) chan palyra.Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[id] == nil {
		p.answers[id] = make(chan palyra.Decision, 1)
	}
	return p.answers[id]
}

func (p *parts) Wait(ctx context.Context, id palyra.ApprovalID) (palyra.Decision, error) {
	select {
	case p.asked <- id:
	default:
	}
	ch := p.channel(id)
	select {
	case d := <-ch:
		ch <- d // settled for good
		return d, nil
	case <-ctx.Done():
		return palyra.Decision{}, ctx.Err()
	}
}

func (p *parts) Facts(palyra.Principal, palyra.Decision) palyra.ApprovalFacts {
	return palyra.ApprovalFacts{Votes: 1, Fresh: true}
}

// settledChanges is what became of the changes of a call.
type settledChanges struct {
	call palyra.CallID
	keep bool
}

// Settle keeps or drops what a call of the tool that stages its changes left.
func (p *parts) Settle(_ context.Context, c *palyra.Call, keep bool) palyra.Result {
	p.settled <- settledChanges{c.ID, keep}
	if keep {
		return palyra.Result{Effects: palyra.EffectsKept}
	}
	return palyra.Result{Effects: palyra.EffectsDropped}
}

func (p *parts) Run(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	if !l.Valid() {
		panic("no grant")
	}
	p.started <- c.ID
	p.ran.add(c.Proposal.Key)
	i := in(c)
	if i.Meet {
		p.meet.Done()
		p.meet.Wait()
	}
	res := palyra.Result{Output: json.RawMessage(`"done"`), Executor: "builtin", Stdout: make([]byte, i.Size), Egress: i.Flows}
	res.Stdout = append(res.Stdout, p.speak(c.ID, i)...)
	if i.Deaf { // it does not stop when it should
		<-p.proceed
	}
	if i.Hold {
		select {
		case <-p.proceed:
		case <-ctx.Done():
			res.Failure = &palyra.Refusal{Layer: palyra.LayerTier, Text: "stopped", Reason: palyra.ReasonCancelled}
			res.KillReason = palyra.Stop(context.Cause(ctx).Error())
		}
	}
	if i.Weigh && l.Weigh(ctx, palyra.Staged{Effects: palyra.Effects{Created: 1, Digest: palyra.SumBytes(nil)}}) == palyra.RulingHold {
		res.Effects = palyra.EffectsHeld
	}
	return res
}

// speak prints what the call says, and echoes what it is fed until the end.
func (p *parts) speak(id palyra.CallID, i input) (all []byte) {
	print := func(text []byte) {
		p.calls().Output(id, palyra.Chunk{Stream: "stdout", Offset: int64(len(all)), Data: text})
		all = append(all, text...)
	}
	for _, text := range i.Print {
		print([]byte(text))
	}
	if !i.Feed {
		return all
	}
	feed, ok := p.calls().Feed(id)
	if !ok {
		return append(all, "nobody feeds"...)
	}
	for x := range feed {
		if x.End {
			break
		}
		print(x.Data)
	}
	return all
}

func (p *parts) Ready() error { return nil }

func (p *parts) Attest(_ context.Context, pr palyra.Predicate) (palyra.Attestation, error) {
	p.inputs.Store(pr.CallID, pr.InputDigest)
	return palyra.Attestation{ID: pr.AttestationID, Call: pr.CallID, Digest: palyra.SumBytes(nil), Predicate: pr}, nil
}

func (p *parts) apply(_ *store.Tx, _ *palyra.Call, e palyra.Event) error {
	if p.stale != nil {
		p.stale.Add(1)
		return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "ended")
	}
	if _, ok := e.(palyra.CallGranted); ok && p.full > 0 {
		p.full--
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "full")
	}
	switch e := e.(type) {
	case palyra.CallFinished, palyra.CallUnknown:
		if p.fullEnd > 0 {
			p.fullEnd--
			return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "full")
		}
		if u, ok := e.(palyra.CallUnknown); ok {
			p.gone <- u.Call
		}
	}
	if w, ok := e.(palyra.ApprovalWithdrawn); ok {
		p.withdrew = append(p.withdrew, w.Approval)
	}
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, driver(func(context.Context, *Live) error { return nil }))
}

func newWorldWith(t *testing.T, d Driver) *world {
	t.Helper()
	w := &world{
		t: t, path: filepath.Join(t.TempDir(), "state.db"), tape: &recorder{}, driver: d, ran: &ran{keys: map[string]int{}},
		limits: palyra.Budget{Calls: 64, WallMS: 600_000, OutputBytes: 1 << 20, Parallel: 4},
	}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	e, err := sqlite.Open(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.db, err = store.Open(w.t.Context(), e, Schema()); err != nil {
		w.t.Fatal(err)
	}
	if w.commit != nil {
		w.db.Use(store.GroupHook{Commit: func(*store.Tx) error { return w.commit() }})
	}
	old := w.parts
	w.parts = &parts{
		answers: map[palyra.ApprovalID]chan palyra.Decision{}, asked: make(chan palyra.ApprovalID, 100),
		started: make(chan palyra.CallID, 1000), gone: make(chan palyra.CallID, 1000), settled: make(chan settledChanges, 100),
		proceed: make(chan struct{}), ran: w.ran, calls: func() *Calls { return w.calls }, meet: &sync.WaitGroup{},
	}
	if old != nil {
		w.parts.answers = old.answers
	}
	w.ledger = NewLedger(w.db, w.tape, w.parts.apply)
	if w.sessions, err = session.New(session.Config{DB: w.db, Journal: w.tape, Now: time.Now, Idle: time.Hour}); err != nil {
		w.t.Fatal(err)
	}
	p := w.parts
	g, err := gate.New(gate.Config{
		Ledger: w.ledger, Catalog: p, Planner: p, Judge: p, Desk: p, Runner: p, Attester: p, Now: time.Now,
		NewID: func() palyra.ID { return palyra.ID(ulid.New(time.Now())) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	if w.calls, err = NewCalls(CallsConfig{Gate: g, Ledger: w.ledger, Sessions: w.sessions, Now: time.Now, Log: log}); err != nil {
		w.t.Fatal(err)
	}
	w.runs, err = NewRuns(RunsConfig{
		DB: w.db, Journal: w.tape, Calls: w.calls, Sessions: w.sessions, Driver: w.driver, Limits: w.limits, Now: time.Now, Log: log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.runs.rest = 5 * time.Millisecond
}

// recover does what a daemon does at its start.
func (w *world) recover() {
	w.t.Helper()
	if err := w.calls.Recover(w.t.Context(), func(_ context.Context, id palyra.ApprovalID) (bool,
		error,
	) {
		return len(w.parts.channel(id)) > 0, nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.runs.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.open()
	w.recover()
}

func (w *world) close() {
	w.runs.Stop()
	w.calls.Stop()
	if err := w.db.Close(); err != nil && !errors.Is(err, context.Canceled) {
		w.t.Error(err)
	}
}

func (w *world) proposal(args string) palyra.Proposal {
	return palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:test", Surface: palyra.SurfaceCLI}, Workspace: "/w",
		Tool: "palyra.echo", Arguments: json.RawMessage(args),
	}
}

// allow settles an approval.
func (w *world) allow(id palyra.ApprovalID, digest palyra.Digest) {
	w.parts.channel(id) <- palyra.Decision{
		Approval: id, Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce,
		Lease: palyra.LeaseID("L" + id), Digest: digest,
	}
}

// approve allows whatever is asked, as long as the world is open.
func (w *world) approve(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	asked, ledger := w.parts.asked, w.ledger
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case id := <-asked:
				calls, err := ledger.waitingFor(ctx, id)
				if err == nil && len(calls) > 0 && len(w.parts.channel(id)) == 0 {
					w.allow(id, calls[0].Digest)
				}
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// request is a plain request for a run.
func (w *world) request(input string) StartRequest {
	return StartRequest{
		Principal: "agent:test", Owner: "user:me", PeerUID: 7, Surface: palyra.SurfaceCLI, Workspace: "/w", Provider: "fake",
		Input: []byte(input),
	}
}

// start starts a run.
func (w *world) start(q StartRequest) palyra.Run {
	w.t.Helper()
	run, err := w.runs.Start(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// attach reads a run's tape to its end.
func (w *world) attach(id palyra.RunID, after int64) []palyra.TapeEntry {
	w.t.Helper()
	var all []palyra.TapeEntry
	err := w.runs.Attach(w.t.Context(), id, after, func(e palyra.TapeEntry) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// ended waits for a run's end and returns it.
func (w *world) ended(id palyra.RunID) palyra.Run {
	w.t.Helper()
	w.attach(id, 0)
	run, err := w.runs.Get(w.t.Context(), id)
	if err != nil || !run.State.Ended() {
		w.t.Fatalf("%+v, %v", run, err)
	}
	return run
}

// kindOf names the one thing an entry tells.
func kindOf(e palyra.TapeEntry) string {
	var kinds []string
	for name, there := range map[string]bool{
		"accepted": e.RunAccepted != nil, "text": e.ModelText != nil, "proposed": e.ToolProposed != nil, "judged": e.ToolJudged != nil,
		"requested": e.ApprovalRequested != nil, "resolved": e.ApprovalResolved != nil, "granted": e.ToolGranted != nil,
		"output": e.ToolOutput != nil, "attested": e.ToolAttested != nil, "finished": e.ToolFinished != nil, "ended": e.RunFinished != nil,
	} {
		if there {
			kinds = append(kinds, name)
		}
	}
	return strings.Join(kinds, "+")
}

// story is a tape as the names of its entries, checked to be without gaps.
func story(t *testing.T, after int64, tape []palyra.TapeEntry) (kinds []string) {
	t.Helper()
	for i, e := range tape {
		if e.Seq != after+int64(i)+1 || e.At.IsZero() || e.Run == "" {
			t.Errorf("entry %d is %+v", i, e)
		}
		kinds = append(kinds, kindOf(e))
	}
	return kinds
}

type result struct {
	out palyra.Outcome
	err error
}

// call starts a call on its own goroutine.
func (w *world) call(ctx context.Context, p palyra.Proposal) <-chan result {
	ch := make(chan result, 1)
	go func() {
		out, err := w.calls.Call(ctx, p, palyra.Watch{})
		ch <- result{out, err}
	}()
	return ch
}
