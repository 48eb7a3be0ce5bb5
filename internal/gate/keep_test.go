package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// changed is what the staged runs here did.
var changed = palyra.Staged{
	Effects: palyra.Effects{Removed: 30, Digest: palyra.SumBytes([]byte("list")), List: "LIST"},
	Facts:   palyra.EffectFacts{Removed: 30, RemovedFiles: 30, Share: -1},
	Detail:  palyra.Detail{Diff: "-x"},
}

// staged has the runner ask what becomes of its changes, and do that.
func (w *world) staged() {
	w.execute = func(ctx context.Context, l palyra.Launch) palyra.Result {
		res := palyra.Result{Stdout: []byte("done"), Executor: "sandbox_tier_c", Listed: &changed.Effects, Changes: []palyra.Change{{Path: "x"}}}
		before := w.durable()
		ruling := l.Weigh(ctx, changed)
		after := w.durable()
		w.note("ruling %s", ruling)
		if ruling != palyra.RulingDrop && (after.State != palyra.Settling || after.Keep == nil || after.Keep.Effects != changed.Effects) {
			w.t.Errorf("%s, and the durable call is %s after %s", ruling, after.State, before.State)
		}
		res.Effects = map[palyra.Ruling]palyra.Settlement{
			palyra.RulingKeep: palyra.EffectsKept, palyra.RulingDrop: palyra.EffectsDropped, palyra.RulingHold: palyra.EffectsHeld,
		}[ruling]
		return res
	}
}

func (w *world) durable() palyra.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[callID]
}

// onChanges says one thing of calls, and another of what they changed.
func onChanges(f func(palyra.Request) palyra.Verdict) func(palyra.Request) palyra.Verdict {
	return func(r palyra.Request) palyra.Verdict {
		if r.Effects == nil {
			return always(palyra.Allow)(r)
		}
		return f(r)
	}
}

// looking says the same of what a command did that only looks.
func looking(e palyra.Effect) func(palyra.Request) palyra.Verdict {
	return func(r palyra.Request) palyra.Verdict {
		v := always(e)(r)
		v.Looks = true
		return v
	}
}

func keepAnswers(a palyra.Answer) func(context.Context) (palyra.Decision, error) {
	return func(context.Context) (palyra.Decision, error) {
		d := answered(a)
		d.Approval = keepID
		return d, nil
	}
}

func TestChangesAreWeighed(t *testing.T) {
	const (
		drop = "judge false, record [call.settling], ruling drop"
		held = "judge false, record [call.settling], ruling hold, prepare, record [call.settling approval.requested], wait"
	)
	for _, tt := range []struct {
		name    string
		judge   func(palyra.Request) palyra.Verdict
		desk    func(context.Context) (palyra.Decision, error)
		noWait  bool
		effects palyra.Settlement
		layer   palyra.Layer
		trace   string // between the run and the end
	}{
		{"kept", always(palyra.Allow), nil, false, palyra.EffectsKept, "", "judge false, record [call.settling], ruling keep"},
		{"denied", always(palyra.Deny), nil, false, palyra.EffectsDropped, palyra.LayerPolicy, drop},
		{
			"asked and allowed", asking(palyra.Allow), keepAnswers(palyra.AnswerAllow), false, palyra.EffectsKept, "",
			held + ", judge true, record [call.settling], settle true",
		},
		{
			"asked and denied", asking(palyra.Allow), keepAnswers(palyra.AnswerDeny), false, palyra.EffectsDropped, palyra.LayerApproval,
			held + ", settle false",
		},
		{
			"asked in vain", asking(palyra.Allow), keepAnswers(palyra.AnswerTimeout), false, palyra.EffectsDropped, palyra.LayerApproval,
			held + ", settle false",
		},
		{
			"an answer that is not enough", asking(palyra.Deny), keepAnswers(palyra.AnswerAllow), false, palyra.EffectsDropped, palyra.LayerApproval,
			held + ", judge true, settle false",
		},
		{"kept, of a look", looking(palyra.Allow), nil, false, palyra.EffectsDropped, "", drop},
		{"asked, of a look", looking(palyra.Ask), nil, false, palyra.EffectsDropped, "", drop},
		{"denied, of a look", looking(palyra.Deny), nil, true, palyra.EffectsDropped, "", drop},
		{"asked and not awaited", asking(palyra.Allow), nil, true, palyra.EffectsDropped, palyra.LayerPolicy, drop},
		{
			"a judge that breaks off", func(palyra.Request) palyra.Verdict { panic("x") }, nil, false, palyra.EffectsDropped, palyra.LayerPolicy,
			drop,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.staged()
			w.verdict, w.desk = onChanges(tt.judge), tt.desk
			out, err := w.doWith(context.Background(), palyra.Proposal{
				Proposer: palyra.Proposer{Principal: "agent:local", Session: "S1"}, Tool: "palyra.fs.write",
				Arguments: json.RawMessage(`{}`), NoWait: tt.noWait,
			})
			if err != nil || out.Outcome != palyra.OutcomeFinished ||
				out.Effects != tt.effects || out.Layer != tt.layer {
				t.Fatalf("%+v, %v", out, err)
			}
			dropped := tt.effects == palyra.EffectsDropped && tt.layer != ""
			if dropped != (out.ReasonCode == palyra.ReasonEffectsDropped) ||
				dropped != (out.ExitCode == palyra.ExitRefused) || out.Stdout != "done" {
				t.Errorf("%s %d %q", out.ReasonCode, out.ExitCode, out.Stdout)
			}
			if again := strings.Contains(out.Remedy, "asked about again"); again != (tt.name == "asked and denied") {
				t.Errorf("remedy: %s", out.Remedy) // nothing holds the same command back
			}
			seen := w.trace[slices.Index(w.trace, "run")+1 : slices.Index(w.trace, "attest")]
			seen = slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return strings.HasPrefix(s, "heard ") })
			trace := strings.Join(seen, ", ")
			if trace != tt.trace {
				t.Errorf("%s\nnot\n%s", trace, tt.trace)
			}
			if k := w.durable().Keep; k == nil || k.Result != nil || k.Digest == digestOf(plan("a.txt")) {
				t.Errorf("%+v is on record", k)
			}
			if w.signed = nil; out.Changes == nil || *out.Changes != changed.Effects {
				t.Errorf("changes %+v", out.Changes)
			}
		})
	}
}

// A question about changes outlives the daemon, and goes on where it stood: with the run's output, whoever answers.
func TestHeldChangesAreResumed(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.verdict = onChanges(asking(palyra.Allow))
	ctx, stop := context.WithCancelCause(context.Background())
	w.desk = func(ctx context.Context) (palyra.Decision, error) {
		stop(ErrStopping)
		<-ctx.Done()
		return palyra.Decision{}, ctx.Err()
	}
	if _, err := w.do(ctx); !errors.Is(err, ErrStopping) {
		t.Fatal(err)
	}
	held := w.durable()
	held.Stored = held.State
	w.desk, w.heard = keepAnswers(palyra.AnswerAllow), nil
	out, err := w.gate().Resume(context.Background(), &held, Watcher{})
	if err != nil || out.Effects != palyra.EffectsKept || out.Stdout != "done" || out.ExitCode != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
}

// Changes that nobody can be asked about, because the question is not on record, are dropped at once.
func TestUnaskedChangesAreDropped(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.verdict, w.desk = onChanges(asking(palyra.Allow)), keepAnswers(palyra.AnswerAllow)
	w.failAt = 3 // granted, settling; then the question
	if _, err := w.do(context.Background()); err == nil {
		t.Fatal("the question was recorded")
	}
	if got := strings.Join(w.trace, ", "); !strings.HasSuffix(got, "settle false") {
		t.Error(got)
	}
}

// A daemon that died once the answer was taken settles by it, and asks nobody again.
func TestTakenAnswerIsKeptTo(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.verdict, w.desk = onChanges(asking(palyra.Allow)), keepAnswers(palyra.AnswerAllow)
	w.failAt = 5 // granted, settling, asked, taken; then the end
	if _, err := w.do(context.Background()); err == nil {
		t.Fatal("the end was recorded")
	}
	held := w.durable()
	held.Stored = held.State
	w.trace = nil
	out, err := w.gate().Resume(context.Background(), &held, Watcher{})
	if err != nil || out.Effects != palyra.EffectsKept {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := strings.Join(w.trace, ", "); got != "settle true, attest, record [call.finished]" {
		t.Error(got)
	}
}

// Whoever gives up while the question is open gets nothing kept, and the question is withdrawn.
func TestCancelDropsHeldChanges(t *testing.T) {
	w := newWorld(t)
	w.staged()
	ctx, cancel := context.WithCancel(context.Background())
	w.verdict = onChanges(asking(palyra.Allow))
	w.desk = func(ctx context.Context) (palyra.Decision, error) { cancel(); return palyra.Decision{}, ctx.Err() }
	out, err := w.do(ctx)
	if err != nil || out.Effects != palyra.EffectsDropped || out.ReasonCode != palyra.ReasonEffectsDropped {
		t.Fatalf("%+v, %v", out, err)
	}
	if kinds := kindsOf(w.journal); !slices.Contains(kinds, "approval.withdrawn") {
		t.Error(kinds)
	}
}

// A call that no question is open about is not gone on with.
func TestResumeWithoutQuestion(t *testing.T) {
	for _, c := range []*palyra.Call{
		{ID: callID, State: palyra.Settling},
		{ID: callID, State: palyra.Settling, Keep: &palyra.Keep{Result: json.RawMessage(`{}`)}},
		{ID: callID, State: palyra.Settling, Keep: &palyra.Keep{Approval: keepID}},
		{ID: callID, State: palyra.Granted, Keep: &palyra.Keep{Approval: keepID, Result: json.RawMessage(`{}`)}},
	} {
		if _, err := newWorld(t).gate().Resume(context.Background(), c, Watcher{}); palyra.CodeOf(err) != palyra.Conflict {
			t.Errorf("%s: %v", c.State, err)
		}
	}
}

// A runner that cannot settle now leaves the call as it is, to be gone on with later.
func TestUnsettledChangesGoOnLater(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.verdict, w.desk, w.unsettled = onChanges(asking(palyra.Allow)), keepAnswers(palyra.AnswerAllow), true
	if _, err := w.do(context.Background()); palyra.AsError(err).Reason != palyra.ReasonStopping {
		t.Fatal(err)
	}
	held := w.durable()
	if held.State != palyra.Settling || len(held.Keep.Result) == 0 {
		t.Fatalf("%+v", held)
	}
	held.Stored, w.unsettled = held.State, false
	if out, err := w.gate().Resume(context.Background(), &held, Watcher{}); err != nil || out.Effects != palyra.EffectsKept {
		t.Fatalf("%+v, %v", out, err)
	}
}

// What a call had done that was cancelled, or ended with what it ran by, is not kept, whatever policy says; a daemon
// that stops ends no right.
func TestChangesOfAnEndedCallAreDropped(t *testing.T) {
	revoked := palyra.Errorf(palyra.Expired, palyra.ReasonGrantRevoked, "the grant it ran under was ended")
	for name, tt := range map[string]struct {
		cause error
		judge func(palyra.Request) palyra.Verdict
		want  palyra.Settlement
		says  string
	}{
		"cancelled": {palyra.CallWasCancelled(), always(palyra.Allow), palyra.EffectsDropped, "the call was cancelled"},
		"revoked":   {revoked, always(palyra.Allow), palyra.EffectsDropped, "the grant it ran under was ended"},
		"no cause":  {nil, always(palyra.Allow), palyra.EffectsDropped, "the call was cancelled"},
		"to ask":    {revoked, asking(palyra.Allow), palyra.EffectsDropped, "the grant it ran under was ended"},
		"stopping":  {ErrStopping, always(palyra.Allow), palyra.EffectsKept, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.staged()
			w.verdict = onChanges(tt.judge)
			ctx, cancel := context.WithCancelCause(context.Background())
			run := w.execute
			w.execute = func(_ context.Context, l palyra.Launch) palyra.Result {
				cancel(tt.cause)
				return run(context.Background(), l) // the runner weighs whoever is gone
			}
			out, err := w.do(ctx)
			if err != nil || out.Effects != tt.want || !strings.Contains(out.Reason, tt.says) {
				t.Fatalf("%+v, %v", out, err)
			}
			if k := w.durable().Keep; k == nil || k.Effects != changed.Effects {
				t.Errorf("%+v is on record", k)
			}
		})
	}
}
