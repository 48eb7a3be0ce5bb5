//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/heaptrim"
	"palyra/internal/pack"
	"palyra/internal/past"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
	"palyra/internal/store"
)

// recordedPast is a store with calls on record: of every ten, six that ran at once (two
// of them palyra.echo), two that a person allowed, one that a person denied, one
// that policy denied.
type recordedPast struct {
	d      *Daemon
	work   string
	tools  map[string]palyra.Call // a call of each kind, resolved and not yet judged
	number int
	plans  int // other plans of each kind
}

func newPast(tb testing.TB, d *Daemon) *recordedPast {
	tb.Helper()
	p := &recordedPast{d: d, work: filepath.Join(tb.TempDir(), "work"), tools: map[string]palyra.Call{}}
	if err := os.Mkdir(p.work, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.work, "README.md"), []byte("x"), 0o600); err != nil {
		tb.Fatal(err)
	}
	if _, err := p.d.work.Add(tb.Context(), p.work, "", "user:me", palyra.Signature{}); err != nil {
		tb.Fatal(err)
	}
	for name, args := range map[string][2]string{
		"read": {"palyra.fs.read", `{"path":"README.md"}`}, "write": {"palyra.fs.write", `{"path":"a.txt","content":"x"}`},
		"echo": {"palyra.echo", `{"text":"x"}`}, "other": {"palyra.fs.write", `{"path":"b.txt","content":"x"}`},
	} {
		p.resolve(tb, name, args[0], args[1])
	}
	return p
}

func (p *recordedPast) resolve(tb testing.TB, name, tool, args string) {
	tb.Helper()
	c := palyra.Call{Proposal: palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", PeerUID: int64(os.Geteuid()), Surface: palyra.SurfaceCLI},
		Tool:     palyra.ToolName(tool), Workspace: p.work,
		Arguments: json.RawMessage(args),
	}}
	session, err := p.d.sessions.Resolve(tb.Context(), c.Proposal)
	if err != nil {
		tb.Fatal(err)
	}
	c.Proposal.Session = session.ID
	if c.Tool, err = p.d.path.catalog.Admit(tb.Context(), c.Proposal); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	if c.Plan, err = p.d.path.planner.Resolve(tb.Context(), &c); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	if c.Digest, err = c.Plan.Digest(); err != nil {
		tb.Fatal(err)
	}
	c.Detail = c.Plan.Detail
	p.tools[name] = c
}

// ending is how a call that was laid down ended.
type ending struct {
	kind   string
	state  palyra.State
	answer palyra.Answer
	deny   bool // the policies of that time denied it
}

var endings = []ending{
	{kind: "echo", state: palyra.Finished},
	{kind: "read", state: palyra.Finished},
	{kind: "write", state: palyra.Finished, answer: palyra.AnswerAllow},
	{kind: "read", state: palyra.Finished},
	{kind: "other", state: palyra.Refused, answer: palyra.AnswerDeny},
	{kind: "echo", state: palyra.Finished},
	{kind: "write", state: palyra.Finished, answer: palyra.AnswerAllow},
	{kind: "read", state: palyra.Finished},
	{kind: "echo", state: palyra.Refused, deny: true},
	{kind: "read", state: palyra.Finished},
}

// call is one call with the journal lines that stand beside it.
func (p *recordedPast) call(tb testing.TB, e ending, n int) (*palyra.Call, []palyra.Event) {
	tb.Helper()
	ctx, c := tb.Context(), p.tools[e.kind]
	if p.plans > 0 {
		c.Plan.Argv = append(slices.Clone(c.Plan.Argv), fmt.Sprint("n", n%p.plans))
		var err error
		if c.Digest, err = c.Plan.Digest(); err != nil {
			tb.Error(err)
		}
	}
	c.ID, c.State, c.Proposed = palyra.CallID(newID()), e.state, now()
	c.Finished = c.Proposed
	pr := c.Proposal
	v := p.d.policy.Judge(ctx, palyra.Request{
		Principal: pr.Principal, Owner: pr.Owner, Session: pr.Session, Surface: pr.Surface,
		Tool: c.Tool, Plan: c.Plan,
	})
	if e.deny {
		v.Effect = palyra.Deny
	}
	c.Verdict = v
	if e.answer != "" {
		c.Decision = palyra.Decision{
			Answer: e.answer, Scope: palyra.ScopeOnce, By: "user:me", At: c.Proposed,
			Votes: []palyra.Vote{{By: "user:me", Answer: e.answer}},
		}
	}
	judged := palyra.CallJudged{Call: c.ID, Plan: c.Digest, Effect: v.Effect, Bundle: v.Bundle, Snapshot: v.Snapshot}
	for _, h := range v.Policies {
		judged.Policies = append(judged.Policies, h.ID)
	}
	return &c, []palyra.Event{palyra.CallProposed{
		Call: c.ID, Session: pr.Session, Principal: pr.Principal, Surface: pr.Surface,
		Tool: pr.Tool,
	}, judged}
}

// lay puts n calls on record.
func (p *recordedPast) lay(tb testing.TB, n int) {
	tb.Helper()
	var wg sync.WaitGroup
	room := make(chan struct{}, 256)
	for range n {
		e, n := endings[p.number%len(endings)], p.number
		p.number++
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			c, events := p.call(tb, e, n)
			if _, err := p.d.path.ledger.Record(tb.Context(), c, events...); err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
}

func (p *recordedPast) replay(tb testing.TB, q wire.ReplayQuery) wire.ReplayReport {
	tb.Helper()
	r, err := p.d.history().Replay(tb.Context(), q, func(int64) {})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func moved(r wire.ReplayReport, from, to palyra.Effect) int64 {
	for _, t := range r.Transitions {
		if t.From == from && t.To == to {
			return t.Count
		}
	}
	return -1
}

// BenchmarkReplay goes through calls in a real store: read, held against the
// journal, judged. Most are of programs, whose plans are the longest. Of the
// distinct ones no two are the same; of the usual ones each plan comes fifty times,
// as agents do the same again and again.
func BenchmarkReplay(b *testing.B) {
	for _, calls := range []int{5_000, 100_000} {
		for name, same := range map[string]int{"usual": 50, "distinct": 1} {
			b.Run(fmt.Sprintf("%s/calls=%d", name, calls), func(b *testing.B) { benchReplay(b, calls, calls/same) })
		}
	}
}

func benchReplay(b *testing.B, calls, plans int) {
	defer debug.SetGCPercent(debug.SetGCPercent(heaptrim.Slack)) // as the daemon has it
	d := programDaemon(b)
	bundle, err := policy.Default()
	if err != nil {
		b.Fatal(err)
	}
	if err := d.policy.Swap(d.judging(bundle)); err != nil {
		b.Fatal(err)
	}
	p := newPast(b, d)
	p.resolve(b, "read", "palyra.process.run", `{"command":"ls","args":["-la","."]}`)
	p.resolve(b, "write", "palyra.process.run", `{"command":"mkdir","args":["out"]}`)
	p.plans = plans
	p.lay(b, calls)
	var all, cpu float64
	var peak uint64
	heap := func(int64) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
	for b.Loop() {
		start, used := time.Now(), cpuTime(b)
		if r, err := d.history().Replay(b.Context(), wire.ReplayQuery{}, heap); err != nil || r.Records != int64(calls) || r.Unreplayable != 0 {
			b.Fatalf("%+v %v", r, err)
		}
		all, cpu = all+time.Since(start).Seconds(), cpu+(cpuTime(b)-used).Seconds()
	}
	b.ReportMetric(all*100_000/float64(b.N*calls), "s/100k")
	b.ReportMetric(cpu*100_000/float64(b.N*calls), "cpu-s/100k") // what it takes where others leave the cores alone
	b.ReportMetric(float64(peak>>20), "heap-MiB")                // the most that was seen, with what the collector had not taken yet
	b.ReportMetric(0, "ns/op")
}

// plainly is the default bundle and one file more, without the tests that hold for
// the default alone.
func plainly(t *testing.T, text string) map[string]string {
	t.Helper()
	files := with(t, text)
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "tests/") })
	return files
}

// opened is the default bundle that lets files be written and no echo be heard.
func opened(t *testing.T) map[string]string {
	t.Helper()
	return plainly(t, noEcho+`@id("writes") permit (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write");`)
}

// The counts are exact, and the same every time.
func TestReplayOfTheStore(t *testing.T) {
	p := newPast(t, testDaemon(t))
	const tens = 60 // more than two pages
	p.lay(t, 10*tens)
	r := p.replay(t, wire.ReplayQuery{Files: opened(t)})
	if r.Records != 10*tens || r.Unreplayable != 0 || r.Same != 5*tens || moved(r, palyra.Allow, palyra.Deny) != 2*tens ||
		moved(r, palyra.Ask, palyra.Allow) != 3*tens || moved(r, palyra.Deny, palyra.Allow) != 0 {
		t.Fatalf("%+v", r)
	}
	if want := (wire.ReplayPrompts{Before: 3 * tens, Saved: 3 * tens}); r.Prompts != want {
		t.Errorf("%+v", r.Prompts)
	}
	first, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(p.replay(t, wire.ReplayQuery{Files: opened(t)}))
	if err != nil || string(first) != string(again) {
		t.Errorf("two replays differ: %v", err)
	}
	if r := p.replay(t, wire.ReplayQuery{}); r.Same != 9*tens || moved(r, palyra.Deny, palyra.Allow) != tens ||
		r.Bundle != p.d.policy.Bundle().Digest() {
		t.Errorf("the policies in force: %+v", r)
	}
}

// The answer is the same byte by byte, however many cores there are.
func TestReplayIsTheSameOnEveryMachine(t *testing.T) {
	p := newPast(t, testDaemon(t))
	p.plans = 150 // some come by twice or thrice
	p.lay(t, 400)
	p.plans = 0
	p.lay(t, 200)
	files, cores := opened(t), runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(cores) })
	var first []byte
	for _, n := range []int{1, 4, 1, 4, 2} {
		runtime.GOMAXPROCS(n)
		got, err := json.Marshal(p.replay(t, wire.ReplayQuery{Files: files}))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if string(got) != string(first) {
			t.Fatalf("with %d cores:\n%s\nnot\n%s", n, got, first)
		}
	}
}

// However often a plan was seen, one that is not what was judged is not replayed:
// not even where the change is in what policy does not look at.
// rewrite changes the document of a call.
func rewrite(tx *store.Tx, id, from, to string) error {
	var doc []byte
	if err := tx.Get(`SELECT doc FROM calls WHERE id=?`, []any{id}, &doc); err != nil {
		return err
	}
	text, err := pack.NewShelf("call_bases").Text(tx, doc)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE calls SET doc=? WHERE id=?`, []byte(strings.ReplaceAll(string(text), from, to)), id)
	return err
}

func TestReplayOfChangedRows(t *testing.T) {
	p := newPast(t, testDaemon(t))
	change := func(from, to string) {
		t.Helper()
		c, events := p.call(t, endings[2], 0)
		if _, err := p.d.path.ledger.Record(t.Context(), c, events...); err != nil {
			t.Fatal(err)
		}
		if err := p.d.db.Write(t.Context(), "test", func(tx *store.Tx) error {
			return rewrite(tx, string(c.ID), from, to)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		change("\x00", "") // nothing
	}
	change(`"writes":["a.txt"]`, `"writes":["b.txt"]`)
	change(`"limits":{`, `"limits":{"wall_ms":7,`)        // not read, and bound
	change(`"tier":"`, `"seals":["x"],"tier":"`)          // one more
	change(`"writes":["a.txt"]`, `"writes":[]`)           // one less
	change(`"writes":["a.txt"]`, `"writes":"a.txt"`)      // another kind
	change(`"tier":"`, `"tier":"A","tier":"`)             // two readings
	change(`"writes":["a.txt"]`, `"writes":["a.\\xtxt"]`) // no JSON
	change(`"principal":"agent:local"`, `"principal":7`)
	r := p.replay(t, wire.ReplayQuery{})
	got := map[string]int64{}
	for _, g := range r.Gaps {
		got[g.Reason] = g.Count
	}
	if want := map[string]int64{past.GapPlan: 4, past.GapRow: 4}; !maps.Equal(got, want) || r.Records != 13 || r.Same != 5 {
		t.Errorf("%v of %d, %d the same", got, r.Records, r.Same)
	}
}

func TestReplaySpan(t *testing.T) {
	p := newPast(t, testDaemon(t))
	p.lay(t, 10)
	middle := now()
	p.lay(t, 20)
	for name, c := range map[string]struct {
		q    wire.ReplayQuery
		want int64
	}{
		"all":    {wire.ReplayQuery{}, 30},
		"since":  {wire.ReplayQuery{Since: middle}, 20},
		"until":  {wire.ReplayQuery{Until: middle}, 10},
		"future": {wire.ReplayQuery{Since: middle.Add(time.Hour)}, 0},
		"both":   {wire.ReplayQuery{Since: middle.Add(-time.Hour), Until: middle.Add(time.Hour)}, 30},
	} {
		if r := p.replay(t, c.q); r.Records != c.want {
			t.Errorf("%s: %d, want %d", name, r.Records, c.want)
		}
	}
}

func TestReplayOfABrokenCandidate(t *testing.T) {
	p := newPast(t, testDaemon(t))
	p.lay(t, 10)
	r := p.replay(t, wire.ReplayQuery{Files: plainly(t, "permit (principal,\n  action, nonsense);")})
	if r.Records != 0 || len(r.Problems) == 0 || r.Problems[0].File != "more.cedar" || r.Problems[0].Line < 1 || r.Problems[0].Column < 1 {
		t.Errorf("%+v", r)
	}
	files := plainly(t, noEcho)
	files["tests/a.yaml"] = "tests:\n  - name: an echo is heard\n    request: {tool: palyra.echo}\n    expect: allow\n"
	if r = p.replay(t, wire.ReplayQuery{Files: files}); len(r.Problems) != 1 || r.Problems[0].File != "tests/a.yaml" ||
		!strings.Contains(r.Problems[0].Text, "an echo is heard") {
		t.Errorf("%+v", r.Problems)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.d.history().Replay(ctx, wire.ReplayQuery{}, func(int64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A call is judged again with what its session had done and what its caller was
// then, and not with what they are now.
func TestReplayKeepsLabelsAndStanding(t *testing.T) {
	p := newPast(t, testDaemon(t))
	for _, change := range []func(*palyra.CallJudged){
		func(j *palyra.CallJudged) {},
		func(j *palyra.CallJudged) { j.Labels = []string{palyra.LabelSecret, palyra.LabelUntrusted} },
		func(j *palyra.CallJudged) {
			j.Roles, j.Owner = []palyra.Role{palyra.RoleAgent}, []palyra.Role{palyra.RoleViewer}
		},
		func(j *palyra.CallJudged) { j.Roles, j.Device = []palyra.Role{palyra.RoleAgent}, "dev-1" },
	} {
		c, events := p.call(t, endings[1], 0)
		judged := events[1].(palyra.CallJudged)
		change(&judged)
		if _, err := p.d.path.ledger.Record(t.Context(), c, events[0], judged); err != nil {
			t.Fatal(err)
		}
	}
	for name, when := range map[string]string{
		"labels":      `context.labels.contains("secret-read") && context.session.labels.contains("untrusted-input")`,
		"owner roles": `principal has owner && principal.owner in Role::"viewer"`,
		"device":      `context has device_id && context.device_id == "dev-1"`,
	} {
		r := p.replay(t, wire.ReplayQuery{
			Files: plainly(t, `@id("x") forbid (principal is Agent, action == Action::"tool.execute", resource) when { `+when+` };`),
		})
		if r.Records != 4 || moved(r, palyra.Allow, palyra.Deny) != 1 || r.Same != 3 {
			t.Errorf("%s: %d of %d are denied, %d the same: %+v", name, moved(r, palyra.Allow, palyra.Deny), r.Records, r.Same, r)
		}
	}
}

// What is not on record as it was judged is said to be missing, and not guessed.
func TestReplayGapsOfTheStore(t *testing.T) {
	p := newPast(t, testDaemon(t))
	ctx := t.Context()
	put := func(change func(c *palyra.Call, events []palyra.Event) []palyra.Event) {
		t.Helper()
		c, events := p.call(t, endings[2], 0)
		if _, err := p.d.path.ledger.Record(ctx, c, change(c, events)...); err != nil {
			t.Fatal(err)
		}
	}
	update := func(text string) {
		t.Helper()
		if err := p.d.db.Write(ctx, "test", func(tx *store.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	out, err := p.d.path.calls.Call(ctx, palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
		Tool:     "palyra.none", Arguments: json.RawMessage(`{}`),
	}, palyra.Watch{})
	if err != nil || out.Layer != palyra.LayerCatalog {
		t.Fatalf("%+v, %v", out, err)
	}
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { return e[:1] }) // never judged
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event {                 // only judged again
		j := e[1].(palyra.CallJudged)
		j.Again = true
		return []palyra.Event{e[0], j}
	})
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { // the line is too long
		j := e[1].(palyra.CallJudged)
		j.Policies = []string{strings.Repeat("x", 70<<10)}
		return []palyra.Event{e[0], j}
	})
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { // of the workspace
		j := e[1].(palyra.CallJudged)
		j.Policies = []string{"project/x"}
		return []palyra.Event{e[0], j}
	})
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { // of a workspace that says it badly
		c.Verdict.Errors = []string{"the policies of the workspace (.palyra/policy) are broken: x"}
		return e
	})
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { // too large to be kept whole
		large := json.RawMessage(`{"path":"a.txt","content":"` + strings.Repeat("x", 70<<10) + `"}`)
		c.Proposal.Arguments, c.Plan.Arguments = large, large
		c.Digest, _ = c.Plan.Digest()
		j := e[1].(palyra.CallJudged)
		j.Plan = c.Digest
		return []palyra.Event{e[0], j}
	})
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { // another plan was judged
		j := e[1].(palyra.CallJudged)
		j.Plan = palyra.SumBytes(nil)
		return []palyra.Event{e[0], j}
	})
	p.lay(t, 2)
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { return e })
	if err := p.d.db.Write(t.Context(), "test", func(tx *store.Tx) error {
		var id string
		if err := tx.Get(`SELECT MAX(id) FROM calls`, nil, &id); err != nil {
			return err
		}
		return rewrite(tx, id, `"writes":["a.txt"]`, `"writes":["z.txt"]`)
	}); err != nil {
		t.Fatal(err)
	}
	put(func(c *palyra.Call, e []palyra.Event) []palyra.Event { return e })
	update(`UPDATE calls SET doc = CAST('{"plan' AS BLOB) WHERE id = (SELECT MAX(id) FROM calls)`)
	r := p.replay(t, wire.ReplayQuery{})
	got := map[string]int64{}
	for _, g := range r.Gaps {
		got[g.Reason] = g.Count
	}
	want := map[string]int64{
		"it was refused before there was a plan (catalog)": 1, past.GapVerdict: 2, past.GapCut: 1, past.GapProject: 2, past.GapLarge: 1,
		past.GapPlan: 2, past.GapRow: 1,
	}
	if !maps.Equal(got, want) || r.Records != 12 || r.Unreplayable != 10 || r.Same != 2 {
		t.Errorf("%v of %d, %d the same", got, r.Records, r.Same)
	}
	if err := os.MkdirAll(filepath.Join(p.work, policy.ProjectDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.work, policy.ProjectDir, "a.cedar"),
		[]byte(`@id("x") forbid (principal, action, resource == Tool::"palyra.fs.read");`), 0o644); err != nil {
		t.Fatal(err)
	}
	if r = p.replay(t, wire.ReplayQuery{}); r.Unreplayable != 11 { // the echo needs no workspace
		t.Errorf("with policies of the workspace: %+v", r.Gaps)
	}
}

// What is suggested saves what people allowed and leaves what they denied.
func TestSuggestFromTheStore(t *testing.T) {
	p := newPast(t, testDaemon(t))
	p.lay(t, 50)
	s, err := p.d.history().Suggest(t.Context(), wire.ReplayQuery{}, 10, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rules) != 1 || s.Rules[0].Saves != 10 || len(s.Rules[0].Calls) != 10 || s.File != "suggested.cedar" ||
		s.Report.Prompts.Before != 15 || s.Report.Prompts.After != 5 {
		t.Fatalf("%+v %+v", s.Rules, s.Report.Prompts)
	}
	before := p.d.policy.Bundle().Digest()
	r := p.replay(t, wire.ReplayQuery{Files: s.Files})
	if moved(r, palyra.Ask, palyra.Allow) != 10 || moved(r, palyra.Deny, palyra.Allow) != 5 || p.d.policy.Bundle().Digest() != before {
		t.Errorf("%+v", r)
	}
	mustApply(t, p.d, s.Files)
	if s, err = p.d.history().Suggest(t.Context(), wire.ReplayQuery{}, 10, func(int64) {}); err != nil || len(s.Rules) != 0 || s.Files != nil {
		t.Errorf("again: %+v, %v", s.Rules, err)
	}
}

// A replay reads of a plan only what policy looks at: the rest changes no verdict.
func TestReadPlanLeavesOutNothingJudged(t *testing.T) {
	p := newPast(t, testDaemon(t))
	c := p.tools["write"]
	c.Plan.Mounts = []palyra.Mount{{Source: "/a", Target: "/b", Writable: true}}
	c.Plan.Inputs = []palyra.Input{{Path: "x", Mode: 1}}
	c.Plan.Files = []palyra.RoomFile{{Target: "x", Text: "y"}}
	c.Plan.Seals, c.Plan.Limits = []string{"x"}, palyra.Limits{WallMS: 7}
	c.Plan.Argv, c.Plan.Env = []string{"a<b", "é"}, []palyra.EnvVar{{Name: "A", Value: "\u2028"}}
	raw, err := json.Marshal(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	var d canon.Doc
	var read palyra.Plan
	if err := errors.Join(d.Read(string(raw)), past.ReadJudgedPlan(d.Root(), &read)); err != nil {
		t.Fatal(err)
	}
	sum := palyra.PlanDigest(d.AppendCanonical(nil))
	if digest, err := c.Plan.Digest(); err != nil || sum != digest {
		t.Errorf("the digest is %s, not %s: %v", sum, digest, err)
	}
	context := func(plan palyra.Plan) string {
		pr := c.Proposal
		why := p.d.policy.Why(t.Context(), palyra.Request{
			Principal: pr.Principal, Owner: pr.Owner, Session: pr.Session, Surface: pr.Surface,
			Tool: c.Tool, Plan: plan,
		})
		var judged map[string]json.RawMessage
		if err := json.Unmarshal(why.Context, &judged); err != nil {
			t.Fatal(err)
		}
		delete(judged, "time") // the two are asked one after the other
		text, err := json.Marshal(judged)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if whole, some := context(c.Plan), context(read); whole != some || whole == "" {
		t.Errorf("judged\n%s\nnot\n%s", some, whole)
	}
	want := c.Plan
	want.Mounts, want.Inputs, want.Files, want.Seals, want.Limits, want.Detail = nil, nil, nil, nil, palyra.Limits{}, palyra.Detail{}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}
}
