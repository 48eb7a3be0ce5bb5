package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"palyra"
)

func TestOnceIsOnce(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	d := w.decide(w.ask(c), palyra.AnswerAllow).Decision
	if got, ok := w.covered(c); !ok || !got.Reused || got.Lease != d.Lease || got.By != "user:alice" || len(got.Votes) != 1 ||
		!got.At.Equal(d.At) {
		t.Errorf("covered %v by %+v", ok, got)
	}
	if err := w.grant(c, d.Lease); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.covered(c); ok {
		t.Error("a spent lease covers")
	}
	wantErr(t, w.grant(c, d.Lease), palyra.Conflict, palyra.ReasonGrantSpent)
	l, err := w.desk.Lease(t.Context(), d.Lease)
	if err != nil || l.Ended != "spent" || l.UsesLeft != 0 {
		t.Errorf("lease %+v, %v", l, err)
	}
	if ended := w.lines("grant.ended"); len(ended) != 1 || ended[0].body["why"] != "spent" {
		t.Errorf("journal %v", ended)
	}
	if told := w.endedLeases(); len(told) != 0 {
		t.Errorf("the run that spent it would be stopped: %v", told)
	}
}

// Many grants race for a lease with some uses: exactly so many get one.
func TestUsesAreTakenOnce(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	d := w.decide(w.ask(c), palyra.AnswerAllow, scoped(palyra.ScopeSession), uses(10)).Decision
	var took, spent atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			switch err := w.grant(c, d.Lease); {
			case err == nil:
				took.Add(1)
			case palyra.AsError(err).Reason == palyra.ReasonGrantSpent:
				spent.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if took.Load() != 10 || spent.Load() != 90 {
		t.Errorf("%d took, %d spent", took.Load(), spent.Load())
	}
}

// What fails after the use was taken gives it back: one transaction.
func TestAUseIsNotLostWithItsTransaction(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	d := w.decide(w.ask(c), palyra.AnswerAllow).Decision
	w.journal.fail = func(e palyra.Event) error {
		if e.Kind() == "grant.ended" {
			return context.Canceled
		}
		return nil
	}
	if err := w.grant(c, d.Lease); err == nil {
		t.Fatal("granted without its line")
	}
	w.journal.fail = nil
	if err := w.grant(c, d.Lease); err != nil {
		t.Fatal(err)
	}
}

func TestCoverPrefersLeasesThatAUseDoesNotEnd(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	asked := func(risk palyra.RiskLevel) palyra.Approval { // what is riskier than a wide lease's question is asked about again
		return w.ask(call(t, "src/a.txt", func(c *palyra.Call) { c.Verdict.Risk.Level = risk }))
	}
	risks := []palyra.RiskLevel{palyra.RiskLow, palyra.RiskLow, palyra.RiskMedium, palyra.RiskHigh, palyra.RiskHigh, palyra.RiskCritical}
	c.Verdict.Risk.Level = palyra.RiskLow
	var want palyra.LeaseID
	for i, options := range [][]voteOption{
		{scoped(palyra.ScopeOnce)},
		{scoped(palyra.ScopeTimeboxed), ttl(time.Hour), widened("path_root")},
		{scoped(palyra.ScopeTimeboxed), ttl(time.Hour)},
		{scoped(palyra.ScopeSession), uses(5)},
		{scoped(palyra.ScopeSession), widened("path_root")},
		{scoped(palyra.ScopeSession)},
	} {
		want = w.decide(asked(risks[i]), palyra.AnswerAllow, options...).Decision.Lease
		w.pass(time.Second)
		if got, ok := w.covered(c); !ok || got.Lease != want || got.Scope != options0(options) {
			t.Errorf("%d: covered by %+v, want %s", i, got, want)
		}
	}
	older := want
	w.decide(asked(palyra.RiskCritical), palyra.AnswerAllow, scoped(palyra.ScopeSession))
	if got, _ := w.covered(c); got.Lease != older {
		t.Error("a younger lease is preferred")
	}
}

func options0(options []voteOption) palyra.Scope {
	var v palyra.Vote
	options[0](&v)
	return v.Scope
}

func TestWhatALeaseDoesNotCover(t *testing.T) {
	w := newWorld(t)
	base := call(t, "src/a.txt")
	w.decide(w.ask(base), palyra.AnswerAllow, scoped(palyra.ScopeSession))
	wide := w.decide(w.ask(call(t, "pkg/a.txt")), palyra.AnswerAllow, scoped(palyra.ScopeSession), widened("path_root")).Decision.Lease
	plan := func(file string, f func(*palyra.Plan)) *palyra.Call {
		c := call(t, file)
		f(&c.Plan)
		c.Digest, _ = c.Plan.Digest()
		return c
	}
	for name, c := range map[string]*palyra.Call{
		"another plan":           call(t, "src/b.txt"),
		"another principal":      call(t, "src/a.txt", by("agent:other")),
		"another session":        call(t, "src/a.txt", inSession(session2)),
		"fresh":                  call(t, "src/a.txt", withNeed(palyra.Need{Votes: 1, Fresh: true})),
		"more votes":             call(t, "src/a.txt", withNeed(palyra.Need{Votes: 2})),
		"another person":         call(t, "src/a.txt", withNeed(palyra.Need{Votes: 1, OtherPerson: true})),
		"a device":               call(t, "src/a.txt", withNeed(palyra.Need{Votes: 1, Device: true})),
		"a better key":           call(t, "src/a.txt", withNeed(palyra.Need{Votes: 1, Separation: palyra.SeparationPassphrase})),
		"outside the root":       call(t, "pkgs/a.txt"),
		"above the root":         call(t, "a.txt"),
		"the root itself":        call(t, "pkg"),
		"hidden":                 call(t, "pkg/.git/config"),
		"deeply hidden":          call(t, "pkg/x/.envrc"),
		"out and in again":       call(t, "pkg/../pkg/a.txt"),
		"out":                    call(t, "pkg/../../etc"),
		"wide, another session":  call(t, "pkg/b.txt", inSession(session2)),
		"wide, another agent":    call(t, "pkg/b.txt", by("agent:other")),
		"wide, riskier":          call(t, "pkg/b.txt", func(c *palyra.Call) { c.Verdict.Risk.Level = palyra.RiskHigh }),
		"wide, risk unknown":     call(t, "pkg/b.txt", func(c *palyra.Call) { c.Verdict.Risk.Level = "" }),
		"wide, other tool":       plan("pkg/b.txt", func(p *palyra.Plan) { p.Tool = "palyra.fs.remove" }),
		"wide, removes":          plan("pkg/b.txt", func(p *palyra.Plan) { p.Removes = p.Writes }),
		"wide, guarded":          call(t, "pkg/mise.toml"),
		"wide, not shown":        plan("pkg/b.txt", func(p *palyra.Plan) { p.Unshown = true }),
		"wide, other workspace":  plan("pkg/b.txt", func(p *palyra.Plan) { p.Workspace.Path = "/x" }),
		"wide, two files":        plan("pkg/b.txt", func(p *palyra.Plan) { p.Writes = append(p.Writes, "doc/c.txt") }),
		"wide, reads elsewhere":  plan("pkg/b.txt", func(p *palyra.Plan) { p.Reads = []string{"doc/c.txt"} }),
		"wide, with a program":   plan("pkg/b.txt", func(p *palyra.Plan) { p.Executable.Path = "/bin/sh" }),
		"wide, with a host":      plan("pkg/b.txt", func(p *palyra.Plan) { p.Egress = []string{"evil:443"} }),
		"wide, with a secret":    plan("pkg/b.txt", func(p *palyra.Plan) { p.Bindings = []string{"token"} }),
		"wide, another tier":     plan("pkg/b.txt", func(p *palyra.Plan) { p.Tier = palyra.TierB }),
		"wide, nothing written":  plan("pkg/b.txt", func(p *palyra.Plan) { p.Writes = nil }),
		"a digest that is none":  call(t, "src/a.txt", func(*palyra.Call) {}),
		"the digest, other tool": plan("src/a.txt", func(p *palyra.Plan) { p.Tool = "palyra.process.run" }),
	} {
		if name == "a digest that is none" {
			c.Digest = ""
		}
		if d, ok := w.covered(c); ok {
			t.Errorf("%s: covered by %+v", name, d)
		}
	}
	for name, c := range map[string]*palyra.Call{
		"the plan":      base,
		"another file":  call(t, "pkg/b.txt"),
		"a deeper file": call(t, "pkg/x/y.txt"),
		"another tool":  plan("pkg/b.txt", func(p *palyra.Plan) { p.Tool = "palyra.fs.apply_patch" }),
		"less risk":     call(t, "pkg/b.txt", func(c *palyra.Call) { c.Verdict.Risk.Level = palyra.RiskLow }),
	} {
		if _, ok := w.covered(c); !ok {
			t.Errorf("%s: not covered", name)
		}
	}
	// The transaction looks again, whatever the gate says.
	other := call(t, "doc/b.txt")
	wantErr(t, w.grant(other, wide), palyra.Conflict, palyra.ReasonPlanChanged)
	err := w.record(base, palyra.CallGranted{Call: base.ID, Plan: other.Digest, Lease: wide})
	wantErr(t, err, palyra.Conflict, palyra.ReasonPlanChanged)
	wantErr(t, w.grant(base, palyra.LeaseID(newID())), palyra.Conflict, palyra.ReasonGrantRevoked)
}

func TestTermsCompare(t *testing.T) {
	c := call(t, "src/a.txt")
	c.Plan.Tier, c.Plan.Egress = palyra.TierC, []string{"a:1"}
	c.Plan.Executable.Path = "/bin/git"
	c.Digest, _ = c.Plan.Digest()
	terms := func(change func(*palyra.Terms)) palyra.Terms {
		tm := exactTerms(palyra.Approval{Principal: "agent:local", Session: session1, Plan: c.Plan, PlanDigest: c.Digest})
		change(&tm)
		return tm
	}
	for name, test := range map[string]struct {
		terms palyra.Terms
		want  bool
	}{
		"exact":          {terms(func(*palyra.Terms) {}), true},
		"lower floor":    {terms(func(tm *palyra.Terms) { tm.TierFloor = palyra.TierB }), true},
		"other tier":     {terms(func(tm *palyra.Terms) { tm.TierFloor = palyra.TierA }), false},
		"no floor":       {terms(func(tm *palyra.Terms) { tm.TierFloor = "" }), false},
		"more hosts":     {terms(func(tm *palyra.Terms) { tm.Hosts = []string{"b:1", "a:1"} }), true},
		"no hosts":       {terms(func(tm *palyra.Terms) { tm.Hosts = nil }), false},
		"other program":  {terms(func(tm *palyra.Terms) { tm.Program = "/bin/sh" }), false},
		"no principal":   {terms(func(tm *palyra.Terms) { tm.Principal = "" }), false},
		"no session":     {terms(func(tm *palyra.Terms) { tm.Session = "" }), false},
		"no tool":        {terms(func(tm *palyra.Terms) { tm.Tool = "" }), false},
		"nothing named":  {terms(func(tm *palyra.Terms) { tm.PlanDigest = "" }), false},
		"a short digest": {terms(func(tm *palyra.Terms) { tm.PlanDigest = "sha256:" }), false},
	} {
		if got := covers(test.terms, palyra.RiskCritical, c); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	c.Plan.Tier = palyra.TierB // stronger was approved
	if covers(terms(func(tm *palyra.Terms) { tm.TierFloor = palyra.TierC; tm.PlanDigest = c.Digest }), palyra.RiskCritical, c) {
		t.Error("a weaker tier than approved is covered")
	}
}

// Property: of two plans that differ in anything bound, one's exact lease never
// covers the other.
func TestExactLeaseCoversOnePlan(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) palyra.Plan {
		word := rapid.SampledFrom([]string{"", "a", "b", "a b", "\u00e9", "e\u0301"})
		list := rapid.SliceOfN(word, 0, 3)
		args, _ := json.Marshal(map[string]any{"x": word.Draw(t, "arg")})
		return palyra.Plan{
			Tool: rapid.SampledFrom([]palyra.ToolName{"t", "u"}).Draw(t, "tool"), Arguments: args,
			Argv: list.Draw(t, "argv"), Cwd: word.Draw(t, "cwd"),
			Executable: palyra.Executable{Path: word.Draw(t, "exe")}, Stdin: word.Draw(t, "stdin"), Egress: list.Draw(t, "egress"),
			Bindings: list.Draw(t, "bindings"), Writes: list.Draw(t, "writes"), Reads: list.Draw(t, "reads"),
			Tier:   rapid.SampledFrom([]palyra.Tier{palyra.TierB, palyra.TierC}).Draw(t, "tier"),
			Inputs: []palyra.Input{{Path: word.Draw(t, "input")}}, Limits: palyra.Limits{WallMS: rapid.Int64Range(0, 3).Draw(t, "wall")},
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		one, two := gen.Draw(t, "one"), gen.Draw(t, "two")
		d1, err1 := one.Digest()
		d2, err2 := two.Digest()
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		lease := exactTerms(palyra.Approval{Principal: "agent:a", Session: session1, Plan: one, PlanDigest: d1})
		c := &palyra.Call{Proposal: palyra.Proposal{Proposer: palyra.Proposer{Principal: "agent:a", Session: session1}}, Plan: two, Digest: d2}
		j1, _ := json.Marshal(one)
		j2, _ := json.Marshal(two)
		same := string(j1) == string(j2)
		if got := covers(lease, palyra.RiskCritical, c); got != same {
			t.Fatalf("covers is %v for\n%s\n%s", got, j1, j2)
		}
	})
}

func TestLeaseDeadlines(t *testing.T) {
	for name, late := range map[string]func(*world){
		"both clocks":   func(w *world) { w.pass(15 * time.Minute) },
		"wall forward":  func(w *world) { w.jump(15*time.Minute, 0) },
		"wall set back": func(w *world) { w.jump(-24*time.Hour, 15*time.Minute) },
		"reboot":        func(w *world) { w.reboot("boot-2", 15*time.Minute) },
	} {
		w := newWorld(t)
		c := call(t, "src/a.txt")
		d := w.decide(w.ask(c), palyra.AnswerAllow).Decision
		late(w)
		if _, ok := w.covered(c); ok {
			t.Errorf("%s: covered after its deadline", name)
		}
		wantErr(t, w.grant(c, d.Lease), palyra.Conflict, palyra.ReasonApprovalExpired)
		if l, _ := w.desk.Lease(t.Context(), d.Lease); l.Ended != "expired" {
			t.Errorf("%s: shown as %+v", name, l)
		}
	}
}

func TestRevoke(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	d := w.decide(w.ask(c), palyra.AnswerAllow, scoped(palyra.ScopeSession)).Decision
	signed := vote(palyra.Approval{}, palyra.AnswerDeny).Signature
	_, err := w.desk.Revoke(t.Context(), d.Lease, "agent:local", signed)
	wantErr(t, err, palyra.Denied, palyra.ReasonAgentMayNotDecide)
	_, err = w.desk.Revoke(t.Context(), d.Lease, "user:bob", palyra.Signature{})
	wantErr(t, err, palyra.Denied, palyra.ReasonSignatureRequired)
	_, err = w.desk.Revoke(t.Context(), palyra.LeaseID(newID()), "user:bob", signed)
	wantErr(t, err, palyra.NotFound, palyra.ReasonNotFound)

	l, err := w.desk.Revoke(t.Context(), d.Lease, "user:bob", signed)
	if err != nil || l.Ended != "revoked" || l.RevokedBy != "user:bob" || !l.RevokedAt.Equal(epoch) {
		t.Errorf("revoked %+v, %v", l, err)
	}
	if told := w.endedLeases(); len(told) != 1 || told[0] != d.Lease {
		t.Errorf("told of %v", told)
	}
	if _, ok := w.covered(c); ok {
		t.Error("a revoked lease covers")
	}
	wantErr(t, w.grant(c, d.Lease), palyra.Conflict, palyra.ReasonGrantRevoked)
	_, err = w.desk.Revoke(t.Context(), d.Lease, "user:bob", signed)
	wantErr(t, err, palyra.Conflict, palyra.ReasonGrantRevoked)
	if ended := w.lines("grant.ended"); len(ended) != 1 || ended[0].body["why"] != "revoked" || ended[0].body["by"] != "user:bob" {
		t.Errorf("journal %v", ended)
	}
}

func TestListingLeases(t *testing.T) {
	w := newWorld(t)
	var all []palyra.LeaseID
	for i := range 5 {
		session := session1
		if i%2 == 1 {
			session = session2
		}
		c := call(t, fmt.Sprintf("src/%d.txt", i), inSession(session))
		all = append([]palyra.LeaseID{w.decide(w.ask(c), palyra.AnswerAllow).Decision.Lease}, all...)
		w.pass(time.Second)
	}
	if err := w.grant(call(t, "src/0.txt"), all[4]); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		f    palyra.LeaseFilter
		want []palyra.LeaseID
	}{
		"all":       {palyra.LeaseFilter{Ended: true}, all},
		"live":      {palyra.LeaseFilter{}, all[:4]},
		"session":   {palyra.LeaseFilter{Session: session2, Ended: true}, []palyra.LeaseID{all[1], all[3]}},
		"principal": {palyra.LeaseFilter{Principal: "agent:local"}, all[:4]},
		"nobody":    {palyra.LeaseFilter{Principal: "agent:x", Ended: true}, nil},
	} {
		for _, limit := range []int64{0, 1, 2} {
			var got []palyra.LeaseID
			f := test.f
			f.Limit = limit
			for pages := 0; ; pages++ {
				page, err := w.desk.Leases(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range page.Leases {
					got = append(got, l.ID)
					if l.Decision.By != "user:alice" {
						t.Errorf("%s: no decision behind %s", name, l.ID)
					}
				}
				if f.Cursor = page.Next; f.Cursor == "" || pages > 10 {
					break
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("%s by %d: %v, want %v", name, limit, got, test.want)
			}
		}
	}
	w.pass(time.Hour) // expired, not swept
	if page, _ := w.desk.Leases(t.Context(), palyra.LeaseFilter{}); len(page.Leases) != 0 {
		t.Errorf("%d leases live after their deadline", len(page.Leases))
	}
	for _, f := range []palyra.LeaseFilter{{Limit: -1}, {Limit: 501}, {Cursor: "x"}, {Session: palyra.SessionID(make([]byte, 5000))}} {
		if _, err := w.desk.Leases(t.Context(), f); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%.40v: %v", f, err)
		}
	}
}
