package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra"
	"palyra/client"
	"palyra/internal/access"
	"palyra/internal/address"
	"palyra/internal/identity"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"

	rpcaccess "palyra/internal/rpc/access"
)

type nowhere struct{}

func (nowhere) Append(*store.Tx, palyra.Event) (palyra.Position, error) {
	return palyra.Position{}, nil
}

func (nowhere) Record(context.Context, ...palyra.Event) (palyra.Position, error) {
	return palyra.Position{}, nil
}

// bench is a daemon's doors on pretended parts, in a home of its own.
type bench struct {
	t      *testing.T
	home   string
	parts  *rpctest.Parts
	signer *identity.Signer
	stop   func()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	home, err := os.MkdirTemp("", "plyr")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	must(t, os.Mkdir(filepath.Join(home, "run"), 0o700))
	b := &bench{t: t, home: home}
	b.signer, err = identity.Create(filepath.Join(home, "operator.key"))
	must(t, err)
	engine, err := sqlite.Open(filepath.Join(home, "state.db"))
	must(t, err)
	db, err := store.Open(context.Background(), engine, access.Schema())
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	reg, err := access.New(access.Config{DB: db, Journal: nowhere{}, StateID: rpctest.StateID, Now: time.Now})
	must(t, err)
	_, err = reg.AddFirstOwner(t.Context(), palyra.Operator{Principal: "user:alice", PublicKey: b.signer.Public()}, int64(os.Geteuid()))
	must(t, err)
	b.parts = &rpctest.Parts{Registry: rpcaccess.Registry{Keys: reg, People: reg, Tokens: reg, Roles: reg}}
	srv, err := rpc.New(rpc.Config{
		AgentSocket: filepath.Join(home, "run", "agent.sock"), OperatorSocket: filepath.Join(home, "run", "operator.sock"),
		StateID: rpctest.StateID, Access: reg, Agents: reg, Roles: reg, Journal: nowhere{}, Services: b.parts.Services(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	stopped := false
	b.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			must(t, <-done)
		}
	}
	t.Cleanup(b.stop)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) open(c client.Config) *client.Client {
	b.t.Helper()
	c.Home = b.home
	cl, err := client.Open(c)
	must(b.t, err)
	b.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func (b *bench) agent() *client.Client { return b.open(client.Config{}) }

func (b *bench) operator() *client.Client {
	return b.open(client.Config{Door: client.OperatorDoor, Signer: b.signer})
}

// same compares words, with empty and nil lists alike.
func same(t *testing.T, what string, err error, got, want any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

func reason(err error) palyra.Reason {
	if err == nil {
		return ""
	}
	return palyra.AsError(err).Reason
}

func TestLooking(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	must(t, c.Health(ctx))
	st, err := c.Status(ctx)
	if err != nil || st.StateID != rpctest.StateID || st.Features["landlock"] != "7" || !st.StartedAt.Equal(rpctest.At) {
		t.Errorf("%+v %v", st, err)
	}
	tools, err := c.Tools(ctx)
	same(t, "tools", err, tools, []palyra.Tool{rpctest.Echo})
	tool, err := c.Tool(ctx, "palyra.echo")
	same(t, "tool", err, tool, rpctest.Echo)
	page, err := c.Approvals(ctx, client.ApprovalFilter{Pending: true, SubjectType: palyra.SubjectTool, Since: rpctest.At})
	same(t, "approvals", err, page, client.ApprovalPage{Approvals: []palyra.Approval{rpctest.Question}, Next: "next"})
	a, err := c.Approval(ctx, "A1")
	same(t, "approval", err, a, rpctest.Question)
	ls, err := c.Leases(ctx, client.LeaseFilter{Principal: "agent:x", Ended: true})
	if err != nil || len(ls.Leases) != 1 || ls.Leases[0].UsesLeft != -1 {
		t.Errorf("%+v %v", ls, err)
	}
	l, err := c.Lease(ctx, "L9")
	if err != nil || l.ID != "L9" {
		t.Errorf("%+v %v", l, err)
	}
	w, err := c.Workspaces(ctx)
	same(t, "workspaces", err, w, []palyra.Workspace{{Path: "/w", AddedAt: rpctest.At}})
	k, err := c.Keys(ctx)
	same(t, "keys", err, k, []palyra.Key{{ID: "k1", Use: "journal", CreatedAt: rpctest.At}})
	places, err := c.KeyPlaces(ctx)
	same(t, "places of keys", err, places, []client.KeyPlace{{Use: "journal", Place: client.PlaceFile}})
	moved, err := c.MoveKeys(ctx, "vault")
	same(t, "moved keys", err, moved, places)
	doc, err := c.ExportKeys(ctx)
	same(t, "export keys", err, string(doc), "trust\x00\xff")
	ops, err := c.Operators(ctx)
	if err != nil || len(ops) != 1 || ops[0].KeyID != b.signer.KeyID() {
		t.Errorf("%+v %v", ops, err)
	}
	agents, err := c.Agents(ctx)
	same(t, "agents", err, agents, []palyra.Agent(nil))
}

func TestLookingAtCalls(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	call, err := c.GetCall(ctx, "other")
	if err != nil || call.Proposal.Principal != "agent:other" || string(call.Plan.Arguments) != `{"n":9007199254740993}` {
		t.Errorf("%+v %v", call, err)
	}
	calls, err := c.Calls(ctx, client.CallFilter{Principal: "agent:x", Limit: 2})
	if err != nil || len(calls.Calls) != 2 || calls.Next != "C" || calls.Calls[0].Proposal.Principal != "agent:x" {
		t.Errorf("%+v %v", calls, err)
	}
	ss, err := c.Sessions(ctx, client.SessionFilter{Principal: "agent:ci"})
	if err != nil || len(ss.Sessions) != 1 || ss.Sessions[0].ID != "S2" {
		t.Errorf("%+v %v", ss, err)
	}
	s, err := c.Session(ctx, "S7")
	if err != nil || s.ID != "S7" {
		t.Errorf("%+v %v", s, err)
	}
	// An agent sees its own and learns nothing of others'.
	ag := b.agent()
	if _, err := ag.GetCall(ctx, "mine"); err != nil {
		t.Error(err)
	}
	if _, err := ag.GetCall(ctx, "other"); reason(err) != palyra.ReasonNotFound {
		t.Errorf("%v", err)
	}
	if err := ag.CancelCall(ctx, "other"); reason(err) != palyra.ReasonNotFound {
		t.Errorf("%v", err)
	}
	calls, err = ag.Calls(ctx, client.CallFilter{Principal: "agent:other"})
	if err != nil || calls.Calls[0].Proposal.Principal != "agent:local" {
		t.Errorf("an agent lists others' calls: %+v %v", calls, err)
	}
	must(t, ag.CancelCall(ctx, "mine"))
}

func TestLookingAtEvidence(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	for i := range 600 {
		e := palyra.Entry{
			Seq: int64(i + 1), Kind: "call.proposed", Time: "2026-11-15T12:00:00Z", Call: "C1",
			Body: map[string]any{"n": json.Number("9007199254740993")},
		}
		if i%2 == 0 {
			e.Kind, e.Call = "call.refused", "C2"
		}
		b.parts.Entries = append(b.parts.Entries, e)
	}
	tail := func(r client.TailRequest) (out []palyra.Entry) {
		t.Helper()
		must(t, c.TailJournal(ctx, r, func(e palyra.Entry) error { out = append(out, e); return nil }))
		return out
	}
	same(t, "tail", nil, tail(client.TailRequest{}), b.parts.Entries)
	same(t, "tail from", nil, tail(client.TailRequest{From: 599}), b.parts.Entries[598:])
	same(t, "tail beyond", nil, tail(client.TailRequest{From: 700}), []palyra.Entry(nil))
	same(t, "tail limit", nil, tail(client.TailRequest{Limit: 3}), b.parts.Entries[:3])
	same(t, "follow limit", nil, tail(client.TailRequest{From: 1, Limit: 300, Follow: true}), b.parts.Entries[:300])
	if got := tail(client.TailRequest{Kind: "call.refused"}); len(got) != 300 || got[0].Call != "C2" {
		t.Errorf("%d entries of a kind", len(got))
	}
	if got := tail(client.TailRequest{Call: "C1", From: 1, Follow: true, Limit: 4}); len(got) != 4 || got[3].Seq != 8 {
		t.Errorf("%+v", got)
	}
	enough := errors.New("enough")
	if err := c.TailJournal(ctx, client.TailRequest{}, func(palyra.Entry) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if err := c.TailJournal(ctx, client.TailRequest{From: -1}, nil); reason(err) != palyra.ReasonMalformedInput {
		t.Errorf("%v", err)
	}
	h, err := c.Head(ctx)
	if err != nil || h.Size != 600 || h.Note != "n\n\n— x\n" {
		t.Errorf("%+v %v", h, err)
	}
	p, err := c.Proof(ctx, 1)
	same(t, "proof", err, string(p), `{"seq":1}`)
	att, err := c.Attestation(ctx, client.AttestationRef{Call: "C1"})
	if err != nil || att.ID != "T1" || att.Predicate.ExitCode != 3 || !cmp.Equal(att.Envelope, rpctest.Envelope) {
		t.Errorf("%+v %v", att, err)
	}
	for _, bad := range []client.AttestationRef{{}, {ID: "a", Call: "b"}, {ID: "a", Call: "b", Digest: "c"}} {
		if _, err := c.Attestation(ctx, bad); reason(err) != palyra.ReasonMalformedInput {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	steps := 0
	r, err := c.VerifyJournal(ctx, func(_, total int64) { steps += int(total) })
	if err != nil || !r.OK || steps != 4 {
		t.Errorf("%+v %d %v", r, steps, err)
	}
	if _, err := c.VerifyJournal(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestLookingAtPolicy(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	p, err := c.Policy(ctx)
	if err != nil || len(p.Files) != 1 || !strings.Contains(p.Files[0].Text, "permit") {
		t.Errorf("%+v %v", p, err)
	}
	e, err := c.Why(ctx, client.WhyRequest{Tool: "palyra.echo", Arguments: json.RawMessage(`{"a":1.0}`)})
	if err != nil || e.Verdict.Effect != palyra.Ask || e.Verdict.Policies[0].Line != 3 || string(e.Plan.Arguments) != `{"a":1.0}` ||
		string(e.Detail) != `{"rungs":[1]}` {
		t.Errorf("%+v %v", e, err)
	}
	if e, err := c.Why(ctx, client.WhyRequest{ID: "C1"}); err != nil || e.Call != "C1" {
		t.Errorf("%+v %v", e, err)
	}
	for _, bad := range []client.WhyRequest{{}, {ID: "C1", Tool: "x"}} {
		if _, err := c.Why(ctx, bad); reason(err) != palyra.ReasonMalformedInput {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	s, err := c.Snapshot(ctx, "")
	same(t, "snapshot", err, s, rpctest.Snapshot)
	got, _ := s.Digest()
	if want, _ := rpctest.Snapshot.Digest(); got != want {
		t.Error("the snapshot's digest changed on the way")
	}
}

func TestDoing(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	a, err := c.Decide(ctx, client.DecideRequest{ID: "A1", Answer: palyra.AnswerAllow, Digest: "sha256:00", TTL: time.Minute, Reason: "<ok>"})
	if err != nil || a.Decision.By != "user:alice" {
		t.Fatalf("%+v %v", a, err)
	}
	v := a.Decision.Votes[0]
	if v.Scope != palyra.ScopeOnce || v.Method != palyra.MethodCLI || v.TTLMS != 60000 || v.Reason != "<ok>" ||
		v.Signature.Intent.PlanDigest != "sha256:00" {
		t.Errorf("%+v", v)
	}
	l, err := c.RevokeLease(ctx, "L1")
	if err != nil || l.RevokedBy != "user:alice" {
		t.Errorf("%+v %v", l, err)
	}
	must(t, c.CloseSession(ctx, "S1"))
	must(t, c.CancelCall(ctx, "C1"))
	w, err := c.AddWorkspace(ctx, "/w", "name")
	if err != nil || w.AddedBy != "user:alice" {
		t.Errorf("%+v %v", w, err)
	}
	must(t, c.RemoveWorkspace(ctx, "/w"))
	if k, err := c.RotateKey(ctx, "journal"); err != nil || k.ID != "k2" {
		t.Errorf("%+v %v", k, err)
	}
	var out bytes.Buffer
	must(t, c.ExportApprovals(ctx, "ndjson", client.ApprovalFilter{}, &out))
	if out.Len() != 200<<10 {
		t.Errorf("%d bytes", out.Len())
	}
	out.Reset()
	must(t, c.ExportJournal(ctx, 1, 0, &out))
	same(t, "export", nil, out.String(), "segment\n")
	if err := c.ExportJournal(ctx, 1, 0, broken{}); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
	must(t, c.Shutdown(ctx))
	if seen := b.parts.Seen(); seen[len(seen)-1] != "shutdown" {
		t.Errorf("%v", seen)
	}
}

var errBroken = errors.New("the disk is full")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestPeopleAndAgents(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	other, err := identity.Create(filepath.Join(b.home, "other.key"))
	must(t, err)
	o, err := c.AddOperator(ctx, palyra.Operator{
		Principal: "user:bob", Role: palyra.RoleApprover, PublicKey: other.Public(),
		Separation: other.Separation(),
	})
	if err != nil || o.KeyID != other.KeyID() { // both sides name a key alike
		t.Fatalf("%+v %v", o, err)
	}
	bob := b.open(client.Config{Door: client.OperatorDoor, Signer: other})
	if _, err := bob.Decide(ctx, client.DecideRequest{ID: "A1", Answer: palyra.AnswerDeny}); err != nil {
		t.Error(err)
	}
	if _, err := bob.AddWorkspace(ctx, "/", ""); reason(err) != palyra.ReasonPermission {
		t.Errorf("%v", err)
	}
	must(t, c.RemoveOperator(ctx, other.KeyID()))
	if _, err := bob.Decide(ctx, client.DecideRequest{ID: "A1", Answer: palyra.AnswerDeny}); reason(err) != palyra.ReasonUnknownKey {
		t.Errorf("%v", err)
	}
	ag, token, err := c.AddAgent(ctx, "ci", "")
	if err != nil || ag.Principal != "agent:ci" || token.Empty() {
		t.Fatalf("%+v %v", ag, err)
	}
	named := b.open(client.Config{AgentToken: token})
	if _, err := named.Call(ctx, client.CallRequest{Tool: "x"}, nil); err != nil || b.parts.Who().Principal != "agent:ci" ||
		b.parts.Who().Owner != "user:alice" {
		t.Errorf("%v %+v", err, b.parts.Who())
	}
	must(t, c.RemoveAgent(ctx, "agent:ci"))
	if _, err := named.Tools(ctx); reason(err) != palyra.ReasonBadCredential {
		t.Errorf("%v", err)
	}
}

func TestCall(t *testing.T) {
	b := newBench(t)
	want := palyra.Outcome{
		Outcome: palyra.OutcomeFinished, Tool: "palyra.echo", Stdout: "<&>\u2028", Output: json.RawMessage(`{"n":9007199254740993,"h":"<"}`),
		CallID: "C1", Attestation: &rpctest.Envelope,
	}
	var got palyra.Proposal
	b.parts.OnCall = func(_ context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
		got = p
		c := &palyra.Call{ID: "C1", Digest: "sha256:01"}
		w.Event(c, palyra.CallProposed{Call: "C1", Session: "S1"})
		w.Event(c, palyra.CallJudged{Call: "C1"})
		w.Event(c, palyra.ApprovalRequested{
			Approval: "A1", Plan: "sha256:01", ExpiresAt: rpctest.At, Record: palyra.Approval{Prompt: palyra.Prompt{Summary: "sum"}},
		})
		c.Decision = palyra.Decision{Approval: "A1", Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, By: "user:alice"}
		w.Event(c, palyra.CallJudged{Call: "C1", Again: true})
		w.Event(c, palyra.CallRefused{Call: "C1"}) // told once
		w.Running(c)
		return want, nil
	}
	var events []client.CallEvent
	out, err := b.agent().Call(t.Context(), client.CallRequest{
		Tool: "palyra.echo", Arguments: json.RawMessage(`{"a": 1}`), Workspace: "/w", Session: "mine", Key: "k", NoWait: true,
		Timeout: time.Second, Surface: palyra.SurfaceCLI,
	}, func(e client.CallEvent) { events = append(events, e) })
	same(t, "outcome", err, out, want)
	sent, _ := want.Marshal()
	if had, _ := out.Marshal(); string(had) != string(sent) {
		t.Errorf("the outcome's bytes changed:\n%s\n%s", sent, had)
	}
	same(t, "proposal", nil, got, palyra.Proposal{
		Key: "k", Proposer: palyra.Proposer{
			Credential: "agent:local", Principal: "agent:local", Owner: "user:alice",
			PeerUID: int64(os.Geteuid()), Surface: palyra.SurfaceAPI, Session: "mine",
		},
		Workspace: "/w", Tool: "palyra.echo", Arguments: json.RawMessage(`{"a": 1}`), NoWait: true, TimeoutMS: 1000,
	})
	same(t, "events", nil, events, []client.CallEvent{
		{Accepted: &client.CallAccepted{CallID: "C1", SessionID: "S1"}},
		{ApprovalRequested: &client.ApprovalRequested{ApprovalID: "A1", PlanDigest: "sha256:01", ExpiresAt: rpctest.At, Summary: "sum"}},
		{ApprovalResolved: &client.ApprovalResolved{ApprovalID: "A1", Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, By: "user:alice"}},
		{Running: &client.CallRunning{}},
	})
}

func TestCallIsRefusedAtTheDoor(t *testing.T) {
	b := newBench(t)
	for _, r := range []client.CallRequest{{Surface: palyra.SurfaceCron}, {Surface: "moon"}, {Timeout: -time.Second}} {
		if _, err := b.agent().Call(t.Context(), r, nil); reason(err) != palyra.ReasonMalformedInput {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := b.operator().Call(t.Context(), client.CallRequest{Tool: "x"}, nil); reason(err) != palyra.ReasonPermission {
		t.Errorf("%v", err)
	}
	if _, err := b.agent().Call(t.Context(), client.CallRequest{Tool: "x"}, nil); err != nil {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	b := newBench(t)
	enough := errors.New("enough")
	err := b.operator().WatchApprovals(t.Context(), func(a palyra.Approval) error {
		same(t, "approval", nil, a, rpctest.Question)
		return enough
	})
	if !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = b.operator().WatchApprovals(ctx, func(palyra.Approval) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || reason(err) != palyra.ReasonCancelled {
		t.Errorf("%v", err)
	}
}

// Without a key nothing that must be signed leaves the client.
func TestNoSigner(t *testing.T) {
	b := newBench(t)
	c := b.open(client.Config{Door: client.OperatorDoor})
	if _, err := c.Decide(t.Context(), client.DecideRequest{ID: "A1"}); reason(err) != palyra.ReasonSignatureRequired {
		t.Errorf("%v", err)
	}
	if err := c.ExportJournal(t.Context(), 1, 0, io.Discard); reason(err) != palyra.ReasonSignatureRequired {
		t.Errorf("%v", err)
	}
	if seen := b.parts.Seen(); len(seen) > 0 {
		t.Errorf("reached %v", seen)
	}
}

func TestProtectedSigner(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.home, "protected.key")
	made, err := identity.CreateProtected(path, palyra.NewSecret([]byte("correct horse")))
	must(t, err)
	_, err = b.operator().AddOperator(t.Context(), palyra.Operator{
		Principal: "user:bob", Role: palyra.RoleApprover,
		PublicKey: made.Public(), Separation: made.Separation(),
	})
	must(t, err)
	asked := 0
	s, err := client.LoadSigner(path, func() (palyra.Secret, error) {
		asked++
		return palyra.NewSecret([]byte("correct horse")), nil
	})
	must(t, err)
	c := b.open(client.Config{Door: client.OperatorDoor, Signer: s})
	if _, err := c.Approvals(t.Context(), client.ApprovalFilter{}); err != nil || asked != 0 {
		t.Errorf("asked %d times to look: %v", asked, err)
	}
	for range 2 {
		if _, err := c.Decide(t.Context(), client.DecideRequest{ID: "A1", Answer: palyra.AnswerDeny}); err != nil {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if _, err := client.LoadSigner(filepath.Join(b.home, "none"), nil); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("%v", err)
	}
	wrong, _ := client.LoadSigner(path, func() (palyra.Secret, error) { return palyra.NewSecret([]byte("wrong one!")), nil })
	if _, err := b.open(client.Config{Door: client.OperatorDoor, Signer: wrong}).
		Decide(t.Context(), client.DecideRequest{ID: "A1"}); reason(err) != palyra.ReasonBadCredential {
		t.Errorf("%v", err)
	}
}

// A key that is made protected signs at once, and from its file only with the
// passphrase.
func TestCreateProtectedKey(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.home, "new.key")
	short := palyra.NewSecret([]byte(strings.Repeat("x", client.MinPassphrase-1)))
	checked := client.CheckPassphrase(short)
	if _, err := client.CreateProtectedKey(path, short); palyra.CodeOf(err) != palyra.Invalid || checked == nil ||
		err.Error() != checked.Error() {
		t.Errorf("short passphrase: %v, %v", err, checked)
	}
	pass := palyra.NewSecret([]byte("correct horse"))
	must(t, client.CheckPassphrase(pass))
	made, err := client.CreateProtectedKey(path, pass)
	must(t, err)
	defer made.Close()
	loaded, err := client.LoadSigner(path, nil)
	must(t, err)
	if loaded.KeyID() != made.KeyID() || loaded.Separation() != palyra.SeparationPassphrase ||
		made.Separation() != palyra.SeparationPassphrase {
		t.Errorf("%s %s, %s %s", made.KeyID(), made.Separation(), loaded.KeyID(), loaded.Separation())
	}
	if _, err := made.Sign(palyra.Intent{KeyID: made.KeyID()}); err != nil {
		t.Error(err)
	}
	if _, err := loaded.Sign(palyra.Intent{KeyID: made.KeyID()}); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("signed without the passphrase: %v", err)
	}
}

func TestNoDaemon(t *testing.T) {
	b := newBench(t)
	c := b.operator()
	b.stop()
	_, err := c.Status(t.Context())
	e := palyra.AsError(err)
	if e.Reason != client.ReasonNoDaemon || e.Code != palyra.Unavailable || e.Remedy != "palyra up --detach" {
		t.Errorf("%+v", e)
	}
	if _, err := c.Decide(t.Context(), client.DecideRequest{ID: "A1"}); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v", err)
	}
	if err := c.WatchApprovals(t.Context(), nil); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v", err)
	}
	if err := c.Health(t.Context()); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v", err)
	}
	if _, err := client.Open(client.Config{}); reason(err) != palyra.ReasonConfig {
		t.Errorf("%v", err)
	}
}

func TestDaemonThatDies(t *testing.T) {
	dir, err := os.MkdirTemp("", "plyr")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	c, err := client.Open(client.Config{Socket: path})
	must(t, err)
	if _, err := c.Call(t.Context(), client.CallRequest{Tool: "x"}, nil); reason(err) != client.ReasonConnectionLost ||
		palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("%v (%s)", err, reason(err))
	}
	if _, err := c.Status(t.Context()); reason(err) != client.ReasonConnectionLost {
		t.Errorf("%v (%s)", err, reason(err))
	}
}

func TestFindingTheDaemon(t *testing.T) {
	b := newBench(t)
	moved := filepath.Join(b.home, "elsewhere")
	must(t, os.Rename(filepath.Join(b.home, "run"), moved))
	must(t, os.Mkdir(filepath.Join(b.home, "run"), 0o700))
	c := b.agent()
	if _, err := c.Status(t.Context()); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v", err)
	}
	must(t, address.Save(filepath.Join(b.home, "run"), moved))
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
	again := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(filepath.Join(again, "run"), os.DirFS(filepath.Join(b.home, "run"))))
	copied, err := client.Open(client.Config{Home: again})
	must(t, err)
	if _, err := copied.Status(t.Context()); reason(err) != client.ReasonNoDaemon || !strings.Contains(err.Error(), "copy") {
		t.Errorf("a copy of the home: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(b.home, "run", "addr"), []byte("../elsewhere\n"), 0o600)) // not absolute: not believed
	if _, err := c.Status(t.Context()); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v", err)
	}
	file := filepath.Join(b.home, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	plain, err := client.Open(client.Config{Socket: file})
	must(t, err)
	if _, err := plain.Status(t.Context()); reason(err) != palyra.ReasonUnsafePermissions {
		t.Errorf("%v", err)
	}
	if os.Geteuid() == 0 {
		sock := filepath.Join(moved, "agent.sock")
		must(t, os.Chown(sock, 65534, -1))
		theirs, err := client.Open(client.Config{Socket: sock})
		must(t, err)
		if _, err := theirs.Status(t.Context()); reason(err) != palyra.ReasonUnsafePermissions {
			t.Errorf("somebody else's socket: %v", err)
		}
	}
}

// Arguments that are not even text reach the gate, which refuses them on record.
func TestArgumentsThatAreNotText(t *testing.T) {
	b := newBench(t)
	var got []byte
	b.parts.OnCall = func(_ context.Context, p palyra.Proposal, _ palyra.Watch) (palyra.Outcome, error) {
		got = p.Arguments
		return palyra.Outcome{Outcome: palyra.OutcomeRefused}, nil
	}
	for _, args := range []string{"{\"a\":\"\xff\"}", "{\"a\":", "\x00"} {
		out, err := b.agent().Call(t.Context(), client.CallRequest{Tool: "x", Arguments: json.RawMessage(args)}, nil)
		if err != nil || out.Outcome != palyra.OutcomeRefused || string(got) != args {
			t.Errorf("%q arrived as %q: %v", args, got, err)
		}
	}
}
