package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
)

// record is a call as it is on record: judged by e, and answered where it was asked.
func record(t testing.TB, e *policy.Engine, i int, r palyra.Request, a *palyra.ApprovalFacts) Record {
	t.Helper()
	r.Approval = nil
	v := e.Judge(t.Context(), r)
	r.Approval = a
	return Record{Call: palyra.CallID(fmt.Sprintf("CALL%d", i)), Request: r, Was: v}
}

func lot(list ...Record) Lot { return func() []Record { return list } }

func eachOf(list []Record) Records {
	return func(yield func(Lot) error) error {
		for _, r := range list {
			if err := yield(lot(r)); err != nil {
				return err
			}
		}
		return nil
	}
}

func fetched() palyra.Request {
	r := policytest.Echo()
	r.Tool = palyra.Tool{
		Name: "palyra.http.fetch", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Capabilities: []palyra.Capability{palyra.Network},
	}
	r.Plan = palyra.Plan{Tool: r.Tool.Name, Tier: palyra.TierBuiltin, Egress: []string{"a.example:443"}, Capabilities: r.Tool.Capabilities}
	return r
}

var yes = &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}

// replayed replays records of three calls (allowed, asked, denied) against a candidate.
func replayed(t *testing.T, candidate string, more ...Record) Report {
	t.Helper()
	old := policytest.Engine(t, policytest.Load(t, `@id("echo") permit (principal, action, resource == Tool::"palyra.echo");
@id("write") permit (principal, action, resource == Tool::"palyra.fs.write") when { context.approval.granted };`))
	list := append([]Record{
		record(t, old, 1, policytest.Echo(), nil), record(t, old, 2, policytest.Write("a"), yes), record(t, old, 3, fetched(), nil),
	}, more...)
	report, err := Run(t.Context(), eachOf(list), policytest.Engine(t, policytest.Load(t, candidate)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func count(r Report, from, to palyra.Effect) int64 {
	for _, t := range r.Transitions {
		if t.From == from && t.To == to {
			return t.Count
		}
	}
	return -1
}

func TestReplayTransitions(t *testing.T) {
	const echoes, writes, fetches = `(principal, action, resource == Tool::"palyra.echo")`,
		`(principal, action, resource == Tool::"palyra.fs.write")`, `(principal, action, resource == Tool::"palyra.http.fetch")`
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
		Call: "CALL1", Principal: "agent:local", Tool: "palyra.echo", Policies: []string{"shut"}, Before: []string{"echo"},
		Reason: "closed today",
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
	old := policytest.Engine(t, policytest.Load(t, `@id("write") permit (principal, action, resource) when { context.approval.granted };`))
	leased := record(t, old, 9, policytest.Write("a"), &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeSession})
	refused := record(t, old, 10, policytest.Write("a"), &palyra.ApprovalFacts{})
	for policies, want := range map[string]Prompts{
		`@id("a") permit (principal, action, resource) when { context.approval.granted };`: {Before: 1, After: 1},
		`@id("a") permit (principal, action, resource);`:                                   {Before: 1, Saved: 1},
		`@id("a") permit (principal, action, resource) when { context.approval.granted && context.approval.fresh };`: {
			Before: 1, After: 2,
			Added: 1,
		},
	} {
		fresh := record(t, old, 8, policytest.Write("b"), yes)
		r, err := Run(t.Context(), eachOf([]Record{fresh, leased}), policytest.Engine(t, policytest.Load(t, policies)), nil)
		if err != nil || r.Prompts != want {
			t.Errorf("%s: %+v %v", policies, r.Prompts, err)
		}
	}
	r, err := Run(t.Context(), eachOf([]Record{refused}), old, nil)
	if err != nil || r.Short.Count != 0 || r.Same != 1 {
		t.Errorf("an answer that was no: %+v %v", r, err)
	}
}

func TestReplayGaps(t *testing.T) {
	good := record(t, policytest.Engine(t, policytest.Defaults(t)), 4, policytest.Echo(), nil)
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
	if diff := cmp.Diff(Gap{Reason: "the plan was deleted", Count: 2, Calls: []palyra.CallID{"LOST", "LOST2"}}, r.Gaps[0]); diff != "" {
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
	e := policytest.Engine(t, policytest.Defaults(t))
	one := record(t, e, 1, policytest.Echo(), nil)
	const n = replayListed + 100
	each := func(yield func(Lot) error) error {
		for i := range n {
			if err := yield(lot(one, Record{Gap: fmt.Sprint("reason ", i)})); err != nil {
				return err
			}
		}
		return nil
	}
	r, err := Run(t.Context(), each, policytest.Engine(t, policytest.Load(t, `@id("a") forbid (principal, action, resource);`)), nil)
	if err != nil || r.Transitions[0].Count != n || len(r.Transitions[0].Calls) != replayListed {
		t.Fatalf("%d of %d: %v", len(r.Transitions[0].Calls), r.Transitions[0].Count, err)
	}
	if r.Unreplayable != n || len(r.Gaps) != replayReasons+1 || r.Gaps[0].Reason != otherGaps || r.Gaps[0].Count != n-replayReasons ||
		len(r.Gaps[0].Calls) > replayListed {
		t.Fatalf("%d reasons, first %+v", len(r.Gaps), r.Gaps[0])
	}
}

// The same records give the same report, byte by byte, and what is swapped in
// meanwhile does not count.
func TestReplayIsDeterministic(t *testing.T) {
	e := policytest.Engine(t, policytest.Defaults(t))
	other := policytest.Load(t, `@id("no") forbid (principal, action, resource);`)
	var list []Record
	for i, r := range []palyra.Request{
		policytest.Echo(), policytest.Write("a"), policytest.Write(".git/x"), fetched(), policytest.Echo(), policytest.Write("b"),
	} {
		list = append(list, record(t, e, i, r, nil), Record{Gap: fmt.Sprint("gap ", i%3)})
	}
	var first string
	for range 5 {
		candidate := policytest.Engine(t, policytest.Load(t, `@id("w") permit (principal, action, resource == Tool::"palyra.fs.write");
@id("f") permit (principal, action, resource) when { context.approval.granted };`))
		each := func(yield func(Lot) error) error {
			for i, r := range list {
				if i == 2 {
					if err := candidate.Swap(policy.Config{Bundle: other, Snapshot: policytest.Open()}); err != nil {
						return err
					}
				}
				if err := yield(lot(r)); err != nil {
					return err
				}
			}
			return nil
		}
		r, err := Run(t.Context(), each, candidate, nil)
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
	e := policytest.Engine(t, policytest.Defaults(t))
	one := record(t, e, 1, policytest.Echo(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	deaf := func(yield func(Lot) error) error { // does not pass the error on
		for i := range 10 {
			if i == 3 {
				cancel()
			}
			_ = yield(lot(one))
		}
		return nil
	}
	r, err := Run(ctx, deaf, e, nil)
	if !errors.Is(err, context.Canceled) || r.Records > 3 { // those before
		t.Fatalf("%d records: %v", r.Records, err)
	}
	broken := errors.New("the disk is gone")
	if _, err = Run(t.Context(), func(func(Lot) error) error { return broken }, e, nil); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err = Run(t.Context(), nil, e, nil); palyra.CodeOf(err) != palyra.Invalid {
		t.Fatal(err)
	}
	if _, err = Run(t.Context(), deaf, nil, nil); palyra.CodeOf(err) != palyra.Invalid {
		t.Fatal(err)
	}
}

func TestReplayProgress(t *testing.T) {
	e := policytest.Engine(t, policytest.Defaults(t))
	one := Record{Gap: "none"}
	var seen []int64
	_, err := Run(t.Context(), func(yield func(Lot) error) error {
		for range 2*replayStep + 5 {
			if err := yield(lot(one)); err != nil {
				return err
			}
		}
		return nil
	}, e, func(n int64) { seen = append(seen, n) })
	if err != nil || !cmp.Equal(seen, []int64{replayStep, 2 * replayStep, 2*replayStep + 5}) {
		t.Fatalf("%v %v", seen, err)
	}
}

// grown is the default bundle with n policies of an operator beside it, spread
// over tools, agents and roles as in a large installation.
func grown(t testing.TB, n int) *policy.Bundle {
	t.Helper()
	var b strings.Builder
	for i := range n {
		scope := [...]string{
			`principal, action == Action::"tool.execute", resource == Tool::"mcp.server.tool%d"`,
			`principal == Agent::"bot%d", action == Action::"tool.execute", resource`,
			`principal in Team::"team%d", action in Action::"call", resource`,
			`principal, action == Action::"vault.use", resource == Secret::"s%d"`,
			`principal in Role::"agent", action == Action::"tool.execute", resource == Tool::"mcp.other.tool%d"`,
			`principal in Team::"team%d", action == Action::"tool.execute", resource in ToolGroup::"allowed"`,
		}[i%6]
		fmt.Fprintf(&b, "@id(\"op-%d\") permit (%s) when { context.approval.granted && context.writes.isEmpty() };\n", i, fmt.Sprintf(scope, i))
	}
	files := policytest.Defaults(t).Files()
	files["operator.cedar"] = b.String()
	out, report := policy.Check(files)
	if out == nil {
		t.Fatal(report.Problems)
	}
	return out
}

func BenchmarkReplay(b *testing.B) {
	e := policytest.Engine(b, grown(b, 1000))
	list := []Record{
		record(b, e, 1, policytest.Echo(), nil), record(b, e, 2, policytest.Write("a.txt"), yes),
		record(b, e, 3, policytest.Write(".git/config"), yes), record(b, e, 4, fetched(), nil),
	}
	n := 0
	each := func(yield func(Lot) error) error {
		for b.Loop() {
			if err := yield(lot(list[n%len(list)])); err != nil {
				return err
			}
			n++
		}
		return nil
	}
	if _, err := Run(b.Context(), each, e, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// Whoever gives up is heard while records are under way, between two policies of a
// large candidate too, and half a report does not pass for a whole one.
func TestReplayEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancels := func(_, _ palyra.Principal) (palyra.Standing, error) {
		cancel()
		return palyra.Standing{}, nil
	}
	e, err := policy.New(policy.Config{Bundle: policytest.Load(t, policytest.PermitAll), Snapshot: policytest.Open(), Standing: cancels})
	if err != nil {
		t.Fatal(err)
	}
	var list []Record
	for i := range 64 {
		was := palyra.Verdict{Bundle: "x", Effect: palyra.Allow}
		list = append(list, Record{Call: palyra.CallID(fmt.Sprint(i)), Request: policytest.Write("a"), Was: was})
	}
	r, err := Run(ctx, eachOf(list), e, nil)
	if !errors.Is(err, context.Canceled) || r.Records != 0 {
		t.Errorf("%v after %d records", err, r.Records)
	}
}
