package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

// record is a call as it is on record: judged by e, and answered where it was asked.
func record(t testing.TB, e *Engine, i int, r palyra.Request, a *palyra.ApprovalFacts) Record {
	t.Helper()
	r.Approval = nil
	v := e.Judge(t.Context(), r)
	r.Approval = a
	return Record{Call: palyra.ID(fmt.Sprintf("CALL%d", i)), Request: r, Was: v}
}

func eachOf(list []Record) func(func(Record) error) error {
	return func(yield func(Record) error) error {
		for _, r := range list {
			if err := yield(r); err != nil {
				return err
			}
		}
		return nil
	}
}

func fetched() palyra.Request {
	r := echo()
	r.Tool = tableTools["palyra.http.fetch"]
	r.Plan = palyra.Plan{Tool: r.Tool.Name, Tier: palyra.TierBuiltin, Egress: []string{"a.example:443"}, Capabilities: r.Tool.Capabilities}
	return r
}

var yes = &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}

// replayed replays records of three calls (allowed, asked, denied) against a candidate.
func replayed(t *testing.T, candidate string, more ...Record) ReplayReport {
	t.Helper()
	old := engine(t, load(t, `@id("echo") permit (principal, action, resource == Tool::"palyra.echo");
@id("write") permit (principal, action, resource == Tool::"palyra.fs.write") when { context.approval.granted };`))
	list := append([]Record{record(t, old, 1, echo(), nil), record(t, old, 2, write("a"), yes), record(t, old, 3, fetched(), nil)}, more...)
	report, err := Replay(t.Context(), eachOf(list), engine(t, load(t, candidate)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func count(r ReplayReport, from, to palyra.Effect) int64 {
	for _, t := range r.Transitions {
		if t.From == from && t.To == to {
			return t.Count
		}
	}
	return -1
}

func TestReplayTransitions(t *testing.T) {
	const echoes, writes, fetches = `(principal, action, resource == Tool::"palyra.echo")`, `(principal, action, resource == Tool::"palyra.fs.write")`, `(principal, action, resource == Tool::"palyra.http.fetch")`
	asked := ` when { context.approval.granted }`
	for name, c := range map[string]struct {
		policies string
		moves    map[move]int64
		prompts  Prompts
	}{
		"the same": {
			`@id("a") permit ` + echoes + `; @id("b") permit ` + writes + asked + `;`, nil, Prompts{Before: 1, After: 1},
		},
		"all open": {
			`@id("a") permit (principal, action, resource);`,
			map[move]int64{{palyra.Ask, palyra.Allow}: 1, {palyra.Deny, palyra.Allow}: 1},
			Prompts{Before: 1, Saved: 1},
		},
		"all shut": {
			`@id("a") forbid (principal, action, resource);`,
			map[move]int64{{palyra.Allow, palyra.Deny}: 1, {palyra.Ask, palyra.Deny}: 1},
			Prompts{Before: 1},
		},
		"all asked": {
			`@id("a") permit (principal, action, resource)` + " when { context.approval.granted };",
			map[move]int64{{palyra.Allow, palyra.Ask}: 1, {palyra.Deny, palyra.Ask}: 1},
			Prompts{Before: 1, After: 3, Added: 2},
		},
		"only fetch": {
			`@id("a") permit ` + fetches + `;`,
			map[move]int64{{palyra.Allow, palyra.Deny}: 1, {palyra.Ask, palyra.Deny}: 1, {palyra.Deny, palyra.Allow}: 1},
			Prompts{Before: 1},
		},
	} {
		r := replayed(t, c.policies)
		changed := int64(0)
		for _, m := range moves {
			if got := count(r, m.from, m.to); got != c.moves[m] {
				t.Errorf("%s: %s→%s is %d", name, m.from, m.to, got)
			}
			changed += c.moves[m]
		}
		if r.Prompts != c.prompts || r.Records != 3 || r.Same+changed != 3 || r.Unreplayable != 0 || r.Short.Count != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestReplaySaysWhy(t *testing.T) {
	r := replayed(t, `@id("shut") @reason("closed today") forbid (principal, action, resource);`)
	want := Change{
		Call: "CALL1", Principal: "agent:local", Tool: "palyra.echo", Policies: []string{"shut"}, Before: []string{"echo"}, Reason: "closed today",
	}
	if diff := cmp.Diff([]Change{want}, r.Transitions[0].Calls); diff != "" {
		t.Error(diff)
	}
	if r.Bundle == "" || r.Snapshot == "" {
		t.Error("the report does not name the candidate")
	}
}

// A question that stays a question can still be a change: the answer that was
// given would not do.
func TestReplayShortAnswers(t *testing.T) {
	stricter := `@id("echo") permit (principal, action, resource == Tool::"palyra.echo");
@id("write") permit (principal, action, resource == Tool::"palyra.fs.write") when { context.approval.votes >= 2 };`
	r := replayed(t, stricter)
	if r.Short.Count != 1 || len(r.Short.Calls) != 1 || r.Short.Calls[0].Call != "CALL2" || r.Same != 3 {
		t.Fatalf("%+v", r)
	}
	if r = replayed(t, `@id("b") permit (principal, action, resource) when { context.approval.granted };`); r.Short.Count != 0 {
		t.Fatalf("%+v", r.Short)
	}
}

// Nobody was disturbed by a call that an earlier answer covered.
func TestReplayLeases(t *testing.T) {
	old := engine(t, load(t, `@id("write") permit (principal, action, resource) when { context.approval.granted };`))
	leased := record(t, old, 9, write("a"), &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeSession})
	refused := record(t, old, 10, write("a"), &palyra.ApprovalFacts{})
	for policies, want := range map[string]Prompts{
		`@id("a") permit (principal, action, resource) when { context.approval.granted };`:                           {Before: 1, After: 1},
		`@id("a") permit (principal, action, resource);`:                                                             {Before: 1, Saved: 1},
		`@id("a") permit (principal, action, resource) when { context.approval.granted && context.approval.fresh };`: {Before: 1, After: 2, Added: 1},
	} {
		fresh := record(t, old, 8, write("b"), yes)
		r, err := Replay(t.Context(), eachOf([]Record{fresh, leased}), engine(t, load(t, policies)), nil)
		if err != nil || r.Prompts != want {
			t.Errorf("%s: %+v %v", policies, r.Prompts, err)
		}
	}
	r, err := Replay(t.Context(), eachOf([]Record{refused}), old, nil)
	if err != nil || r.Short.Count != 0 || r.Same != 1 {
		t.Errorf("an answer that was no: %+v %v", r, err)
	}
}

func TestReplayGaps(t *testing.T) {
	good := record(t, engine(t, defaults(t)), 4, echo(), nil)
	noPlan, noVerdict, badHost, badWho := good, good, good, good
	noPlan.Request.Plan = palyra.Plan{}
	noVerdict.Was = palyra.Verdict{}
	badHost.Request.Plan.Egress = []string{"nonsense"}
	badWho.Request.Principal = "nobody"
	r := replayed(t, `@id("a") permit (principal, action, resource);`, Record{Call: "LOST", Gap: "the plan was deleted"},
		Record{Call: "LOST2", Gap: "the plan was deleted"}, noPlan, noVerdict, badHost, badWho)
	if r.Records != 9 || r.Unreplayable != 6 || len(r.Gaps) != 5 {
		t.Fatalf("%+v", r)
	}
	if diff := cmp.Diff(Gap{Reason: "the plan was deleted", Count: 2, Calls: []palyra.ID{"LOST", "LOST2"}}, r.Gaps[0]); diff != "" {
		t.Error(diff)
	}
	if p := r.Prompts; p.Before != 1 { // what cannot be judged again is in no other number
		t.Errorf("%+v", p)
	}
}

// A candidate with a policy that fails to evaluate denies, and the report says so.
func TestReplayFailing(t *testing.T) {
	r := replayed(t, `@id("a") permit (principal, action, resource);
@id("overflow") forbid (principal, action in Action::"call", resource) when { context.calls_used + 9223372036854775807 > 0 && context.calls_used - 9223372036854775807 < 0 - 2 };`)
	if r.Failing != 0 {
		t.Fatalf("calls_used is 0 in all: %+v", r)
	}
	r = replayed(t, `@id("a") permit (principal, action, resource);
@id("overflow") forbid (principal, action in Action::"call", resource) when { context.calls_used - 1 - 9223372036854775807 - 1 < 0 };`)
	if r.Failing != 3 || count(r, palyra.Allow, palyra.Deny) != 1 || len(r.Transitions[0].Calls[0].Errors) == 0 {
		t.Fatalf("%+v", r)
	}
}

func TestReplayIsBounded(t *testing.T) {
	e := engine(t, defaults(t))
	one := record(t, e, 1, echo(), nil)
	const n = replayListed + 100
	each := func(yield func(Record) error) error {
		for i := range n {
			if err := errors.Join(yield(one), yield(Record{Gap: fmt.Sprint("reason ", i)})); err != nil {
				return err
			}
		}
		return nil
	}
	r, err := Replay(t.Context(), each, engine(t, load(t, `@id("a") forbid (principal, action, resource);`)), nil)
	if err != nil || r.Transitions[0].Count != n || len(r.Transitions[0].Calls) != replayListed {
		t.Fatalf("%d of %d: %v", len(r.Transitions[0].Calls), r.Transitions[0].Count, err)
	}
	if r.Unreplayable != n || len(r.Gaps) != replayReasons+1 || r.Gaps[0].Reason != otherGaps || r.Gaps[0].Count != n-replayReasons || len(r.Gaps[0].Calls) > replayListed {
		t.Fatalf("%d reasons, first %+v", len(r.Gaps), r.Gaps[0])
	}
}

// The same records give the same report, byte by byte, and what is swapped in
// meanwhile does not count.
func TestReplayIsDeterministic(t *testing.T) {
	e := engine(t, defaults(t))
	other := load(t, `@id("no") forbid (principal, action, resource);`)
	var list []Record
	for i, r := range []palyra.Request{echo(), write("a"), write(".git/x"), fetched(), echo(), write("b")} {
		list = append(list, record(t, e, i, r, nil), Record{Gap: fmt.Sprint("gap ", i%3)})
	}
	var first string
	for range 5 {
		candidate := engine(t, load(t, `@id("w") permit (principal, action, resource == Tool::"palyra.fs.write"); @id("f") permit (principal, action, resource) when { context.approval.granted };`))
		each := func(yield func(Record) error) error {
			for i, r := range list {
				if i == 2 {
					if err := candidate.Swap(Config{Bundle: other, Snapshot: open()}); err != nil {
						return err
					}
				}
				if err := yield(r); err != nil {
					return err
				}
			}
			return nil
		}
		r, err := Replay(t.Context(), each, candidate, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		}
		if string(text) != first {
			t.Fatalf("%s\n%s", first, text)
		}
	}
}

func TestReplayStops(t *testing.T) {
	e := engine(t, defaults(t))
	one := record(t, e, 1, echo(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	deaf := func(yield func(Record) error) error { // does not pass the error on
		for i := range 10 {
			if i == 3 {
				cancel()
			}
			_ = yield(one)
		}
		return nil
	}
	r, err := Replay(ctx, deaf, e, nil)
	if !errors.Is(err, context.Canceled) || r.Records != 0 { // none was judged before
		t.Fatalf("%d records: %v", r.Records, err)
	}
	broken := errors.New("the disk is gone")
	if _, err = Replay(t.Context(), func(func(Record) error) error { return broken }, e, nil); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err = Replay(t.Context(), nil, e, nil); palyra.CodeOf(err) != palyra.Invalid {
		t.Fatal(err)
	}
	if _, err = Replay(t.Context(), deaf, nil, nil); palyra.CodeOf(err) != palyra.Invalid {
		t.Fatal(err)
	}
}

func TestReplayProgress(t *testing.T) {
	e := engine(t, defaults(t))
	one := Record{Gap: "none"}
	var seen []int64
	_, err := Replay(t.Context(), func(yield func(Record) error) error {
		for range 2*replayStep + 5 {
			if err := yield(one); err != nil {
				return err
			}
		}
		return nil
	}, e, func(n int64) { seen = append(seen, n) })
	if err != nil || !cmp.Equal(seen, []int64{replayStep, 2 * replayStep, 2*replayStep + 5}) {
		t.Fatalf("%v %v", seen, err)
	}
}

func BenchmarkReplay(b *testing.B) {
	e := engine(b, grown(b, 1000))
	list := []Record{
		record(b, e, 1, echo(), nil), record(b, e, 2, write("a.txt"), yes), record(b, e, 3, write(".git/config"), yes), record(b, e, 4, fetched(), nil),
	}
	n := 0
	each := func(yield func(Record) error) error {
		for b.Loop() {
			if err := yield(list[n%len(list)]); err != nil {
				return err
			}
			n++
		}
		return nil
	}
	if _, err := Replay(b.Context(), each, e, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// Whoever gives up is heard while records are under way, between two policies of a
// large candidate too, and half a report does not pass for a whole one.
func TestReplayEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e, err := New(Config{Bundle: load(t, permitAll), Snapshot: open(), Standing: func(_, _ palyra.Principal) (palyra.Standing, error) {
		cancel()
		return palyra.Standing{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var list []Record
	for i := range replayBatch / 2 {
		list = append(list, Record{Call: palyra.ID(fmt.Sprint(i)), Request: write("a"), Was: palyra.Verdict{Bundle: "x", Effect: palyra.Allow}})
	}
	r, err := Replay(ctx, eachOf(list), e, nil)
	if !errors.Is(err, context.Canceled) || r.Records != 0 {
		t.Errorf("%v after %d records", err, r.Records)
	}
	state, end := e.live.Load().during(ctx)
	defer end()
	for !state.stop() { // the watch is told on its own time
		runtime.Gosched()
	}
	c, err := state.newCall(write("a"))
	if err != nil {
		t.Fatal(err)
	}
	if v := c.judge(); v.Effect != palyra.Deny || len(v.Errors) == 0 {
		t.Errorf("an interrupted judgement says %+v", v)
	}
}
