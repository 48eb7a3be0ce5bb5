package approval

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/store"
)

func TestQuestionSaysWhatItIsAbout(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	c.Proposal.Run, c.Proposal.Parent, c.Proposal.Purpose = "01JRUN", "01JPARENT", "the skill acme/notes"
	c.Plan.Workspace.Known = false
	c.Digest, _ = c.Plan.Digest()
	c.Verdict.Reason, c.Verdict.Remedy = "first line\nsecond", "ask alice"
	a := w.get(w.ask(c).ID)
	if want := "tool:palyra.fs.write#" + string(c.Digest); a.SubjectID != want || a.SubjectType != palyra.SubjectTool {
		t.Errorf("subject %s %s, want %s", a.SubjectType, a.SubjectID, want)
	}
	if a.Call != c.ID || a.Session != session1 || a.Run != "01JRUN" || a.Principal != "agent:local" || a.Owner != "user:alice" ||
		a.PeerUID != 1000 || a.Surface != palyra.SurfaceCLI || a.PlanDigest != c.Digest || a.Waiting != 1 || !a.Pending() {
		t.Errorf("record %+v", a)
	}
	if !a.RequestedAt.Equal(epoch) || !a.ExpiresAt.Equal(epoch.Add(5*time.Minute)) {
		t.Errorf("asked %s, expires %s", a.RequestedAt, a.ExpiresAt)
	}
	if d, err := a.Plan.Digest(); err != nil || d != c.Digest {
		t.Errorf("the stored plan has digest %s, %v", d, err)
	}
	p := a.Prompt
	if p.Summary != "write src/a.txt" || p.Diff != "+hello\n" || p.Risk.Level != palyra.RiskMedium || p.Remedy != "ask alice" {
		t.Errorf("prompt %+v", p)
	}
	if want := "first line\\u000asecond\npolicy ask-writes (default.cedar:7): writes are asked about"; p.Explanation != want {
		t.Errorf("explanation %q, want %q", p.Explanation, want)
	}
	of := "the skill acme/notes asks for it while it runs, in call 01JPARENT"
	if diff := cmp.Diff([]string{"new file", of, "the workspace is NEW: no operator registered it"}, p.Notes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ask-writes"}, a.Policies); diff != "" {
		t.Error(diff)
	}
	for _, part := range []string{"once:", "within 15m", "session:", "timeboxed:", "up to 24h", "path_root", "src/"} {
		if !strings.Contains(p.Covers, part) {
			t.Errorf("covers %q does not say %q", p.Covers, part)
		}
	}
}

func TestUnassessedRiskIsShownAsTheHighest(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	c.Verdict.Risk, c.Verdict.Policies, c.Plan.Detail = palyra.Risk{}, nil, palyra.Detail{}
	p := w.ask(c).Prompt
	if p.Risk.Level != palyra.RiskCritical || p.Summary == "" || p.Explanation == "" {
		t.Errorf("prompt %+v", p)
	}
}

func TestSubjectIsTheMostSpecificThatAsks(t *testing.T) {
	pair := func(action, resource string, e palyra.Effect) palyra.PairResult {
		return palyra.PairResult{Pair: palyra.Pair{Action: action, Resource: resource}, Effect: e}
	}
	tool := pair("tool.execute", `Tool::"x"`, palyra.Ask)
	for _, test := range []struct {
		pairs    []palyra.PairResult
		is       palyra.SubjectType
		resource string
	}{
		{nil, palyra.SubjectTool, "/bin/git"},
		{[]palyra.PairResult{tool}, palyra.SubjectTool, "/bin/git"},
		{[]palyra.PairResult{tool, pair("vault.use", `Secret::"a\"b"`, palyra.Ask)}, palyra.SubjectSecret, `a"b`},
		{[]palyra.PairResult{tool, pair("vault.use", `Secret::"s"`, palyra.Allow)}, palyra.SubjectTool, "/bin/git"},
		{[]palyra.PairResult{pair("channel.send", `Channel::"ops"`, palyra.Ask), tool}, palyra.SubjectChannel, "ops"},
		{
			[]palyra.PairResult{pair("channel.send", `Channel::"ops"`, palyra.Ask), pair("vault.use", `broken::"`, palyra.Ask)},
			palyra.SubjectSecret, `broken::"`,
		},
		{[]palyra.PairResult{pair("node.invoke", "plain", palyra.Ask)}, palyra.SubjectNode, "plain"},
		{[]palyra.PairResult{pair("browser.act", `B::"b"`, palyra.Ask)}, palyra.SubjectBrowser, "b"},
		{[]palyra.PairResult{pair("device.pair", `D::"d"`, palyra.Ask)}, palyra.SubjectPairing, "d"},
		{[]palyra.PairResult{pair("skill.execute", `S::"s"`, palyra.Ask), tool}, palyra.SubjectSkill, "s"},
		{[]palyra.PairResult{pair("cron.add", `C::"c"`, palyra.Ask)}, palyra.SubjectCron, "c"},
		{[]palyra.PairResult{pair("policy.write", `P::"p"`, palyra.Ask)}, palyra.SubjectPolicy, "p"},
	} {
		c := call(t, "src/a.txt")
		c.Plan.Executable.Path = "/bin/git"
		c.Verdict.Pairs = test.pairs
		is, id := subjectOf(c)
		if want := string(test.is) + ":" + test.resource + "#" + string(c.Digest); is != test.is || id != want {
			t.Errorf("%v: %s %s, want %s", test.pairs, is, id, want)
		}
	}
}

func TestIdenticalQuestionsAreJoined(t *testing.T) {
	w := newWorld(t)
	first := w.ask(call(t, "src/a.txt"))
	again := w.ask(call(t, "src/a.txt"))
	if again.ID != first.ID || w.get(first.ID).Waiting != 2 {
		t.Errorf("asked %s again as %s, %d waiting", first.ID, again.ID, w.get(first.ID).Waiting)
	}
	for name, c := range map[string]*palyra.Call{
		"another plan":      call(t, "src/b.txt"),
		"another session":   call(t, "src/a.txt", inSession(session2)),
		"another principal": call(t, "src/a.txt", by("agent:other")),
	} {
		if other := w.ask(c); other.ID == first.ID {
			t.Errorf("%s joined", name)
		}
	}
}

// Two calls prepare the same question at once: the second to be recorded gets
// Conflict and joins when it prepares again.
func TestRacingQuestionsBecomeOne(t *testing.T) {
	w := newWorld(t)
	one, two := call(t, "src/a.txt"), call(t, "src/a.txt")
	a1, _, _ := w.desk.Prepare(t.Context(), one)
	a2, joined, _ := w.desk.Prepare(t.Context(), two)
	if joined {
		t.Fatal("joined what is not recorded")
	}
	if err := w.record(one, requested(one, a1)); err != nil {
		t.Fatal(err)
	}
	wantErr(t, w.record(two, requested(two, a2)), palyra.Conflict, palyra.ReasonExists)
	if again := w.ask(two); again.ID != a1.ID {
		t.Error("the second call has a question of its own")
	}
}

func TestAQuestionAboutAnotherCallIsRefused(t *testing.T) {
	w := newWorld(t)
	other := call(t, "src/other.txt")
	for name, change := range map[string]func(*palyra.ApprovalRequested){
		"id":        func(e *palyra.ApprovalRequested) { e.Approval = palyra.ApprovalID(newID()) },
		"call":      func(e *palyra.ApprovalRequested) { e.Record.Call = palyra.CallID(newID()) },
		"digest":    func(e *palyra.ApprovalRequested) { e.Record.PlanDigest = other.Digest },
		"plan":      func(e *palyra.ApprovalRequested) { e.Record.Plan = other.Plan },
		"principal": func(e *palyra.ApprovalRequested) { e.Record.Principal = "agent:other" },
		"session":   func(e *palyra.ApprovalRequested) { e.Record.Session = session2 },
		"settled":   func(e *palyra.ApprovalRequested) { e.Record.Decision.Answer = palyra.AnswerAllow },
		"no votes":  func(e *palyra.ApprovalRequested) { e.Record.Need.Votes = 0 },
	} {
		c := call(t, "src/a.txt")
		a, _, err := w.desk.Prepare(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		e := requested(c, a)
		change(&e)
		if err := w.record(c, e); palyra.CodeOf(err) != palyra.Internal || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := call(t, "src/a.txt", inSession(session2))
	err := w.record(c, palyra.ApprovalJoined{Approval: w.ask(call(t, "src/a.txt")).ID, Call: c.ID})
	wantErr(t, err, palyra.Internal, palyra.ReasonInternal)
	c = call(t, "src/a.txt")
	c.Digest = "sha256:nonsense"
	_, _, err = w.desk.Prepare(t.Context(), c)
	wantErr(t, err, palyra.Internal, palyra.ReasonInternal)
}

func TestFloodGuard(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxPending = 3 })
	late := call(t, "src/late.txt")
	prepared, _, err := w.desk.Prepare(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		w.ask(call(t, fmt.Sprintf("src/%d.txt", i)))
		w.pass(time.Second)
	}
	_, err = w.tryAsk(call(t, "src/more.txt"))
	wantErr(t, err, palyra.Exhausted, palyra.ReasonTooManyPending)
	if remedy, when := palyra.AsError(err).Remedy, palyra.Time(epoch.Add(5*time.Minute)); !strings.Contains(remedy, when) {
		t.Errorf("remedy %q does not say %s", remedy, when)
	}
	// Prepared while there was room: the transaction looks again.
	wantErr(t, w.record(late, requested(late, prepared)), palyra.Exhausted, palyra.ReasonTooManyPending)

	w.ask(call(t, "src/0.txt"))                       // joining opens nothing
	w.ask(call(t, "src/more.txt", by("agent:other"))) // others have their own room
	w.pass(5*time.Minute - 3*time.Second)             // the first one's deadline is now
	w.ask(call(t, "src/more.txt"))                    // and it no longer counts, swept or not
	_, err = w.tryAsk(call(t, "src/even-more.txt"))
	wantErr(t, err, palyra.Exhausted, palyra.ReasonTooManyPending)
}

func TestADeniedPlanIsNotAskedAgainForAWhile(t *testing.T) {
	w := newWorld(t)
	early := call(t, "src/a.txt", inSession(session2))
	prepared, _, _ := w.desk.Prepare(t.Context(), early)
	w.decide(w.ask(call(t, "src/a.txt")), palyra.AnswerDeny)

	wantErr(t, w.record(early, requested(early, prepared)), palyra.Denied, palyra.ReasonRecentlyDenied)
	_, err := w.tryAsk(call(t, "src/a.txt", inSession(session2)))
	wantErr(t, err, palyra.Denied, palyra.ReasonRecentlyDenied)
	if remedy, when := palyra.AsError(err).Remedy, palyra.Time(epoch.Add(5*time.Minute)); !strings.Contains(remedy, when) {
		t.Errorf("remedy %q does not say %s", remedy, when)
	}
	w.ask(call(t, "src/b.txt"))
	w.ask(call(t, "src/a.txt", by("agent:other")))

	w.jump(time.Hour, 0) // a wall clock set forward does not end a hold
	_, err = w.tryAsk(call(t, "src/a.txt"))
	wantErr(t, err, palyra.Denied, palyra.ReasonRecentlyDenied)
	w.reboot("boot-2", -65*time.Minute) // nor does a reboot with a clock set back lengthen it much
	w.pass(5 * time.Minute)
	w.decide(w.ask(call(t, "src/a.txt")), palyra.AnswerDeny)
	w.pass(5 * time.Minute)
	w.decide(w.ask(call(t, "src/c.txt")), palyra.AnswerDeny)
	var held int
	if err := w.db.Read(t.Context(), func(tx *store.Tx) error {
		return tx.Get(`SELECT COUNT(*) FROM approval_denials`, nil, &held)
	}); err != nil || held != 1 {
		t.Errorf("%d holds kept, %v; old ones should be gone", held, err)
	}
}

func TestOnlyPlainWritesAreWidened(t *testing.T) {
	plain := call(t, "src/a.txt").Plan
	names := func(p palyra.Plan, n palyra.Need) (list []string) {
		for _, o := range offers(p, n) {
			list = append(list, o.Name)
		}
		return list
	}
	if diff := cmp.Diff([]string{"exact", "path_root", "workspace"}, names(plain, palyra.Need{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"exact"}, names(plain, palyra.Need{Fresh: true})); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(*palyra.Plan){
		"a program":         func(p *palyra.Plan) { p.Executable.Path = "/bin/sh" },
		"argv":              func(p *palyra.Plan) { p.Argv = []string{"x"} },
		"env":               func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "A"}} },
		"egress":            func(p *palyra.Plan) { p.Egress = []string{"a:1"} },
		"a secret":          func(p *palyra.Plan) { p.Bindings = []string{"b"} },
		"a mount":           func(p *palyra.Plan) { p.Mounts = []palyra.Mount{{Source: "/"}} },
		"another source":    func(p *palyra.Plan) { p.Source = palyra.SourceMCP },
		"another tier":      func(p *palyra.Plan) { p.Tier = palyra.TierC },
		"more capabilities": func(p *palyra.Plan) { p.Capabilities = append(p.Capabilities, palyra.Network) },
		"no capability":     func(p *palyra.Plan) { p.Capabilities = nil },
		"no write":          func(p *palyra.Plan) { p.Writes = nil },
		"no workspace":      func(p *palyra.Plan) { p.Workspace.Path = "" },
		"a removal":         func(p *palyra.Plan) { p.Removes = p.Writes },
		"a guarded file":    func(p *palyra.Plan) { p.Writes = []string{"rust-toolchain.toml"} },
		"another tool":      func(p *palyra.Plan) { p.Tool = "palyra.fs.remove" },
		"a hidden root":     func(p *palyra.Plan) { p.Writes = []string{".git/hooks/pre-commit"} },
		"a hidden file":     func(p *palyra.Plan) { p.Writes = []string{"src/.envrc"} },
		"an absolute path":  func(p *palyra.Plan) { p.Writes = []string{"/etc/passwd"} },
		"a way out":         func(p *palyra.Plan) { p.Writes = []string{"src/../../x"} },
		"up and away":       func(p *palyra.Plan) { p.Writes = []string{"../x/y"} },
		"a read elsewhere":  func(p *palyra.Plan) { p.Reads = []string{"doc/b"} },
	} {
		p := plain
		p.Capabilities = append([]palyra.Capability(nil), plain.Capabilities...)
		change(&p)
		if diff := cmp.Diff([]string{"exact"}, names(p, palyra.Need{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestPathRoot(t *testing.T) {
	for _, test := range []struct {
		writes []string
		root   string
	}{
		{[]string{"src/a"}, "src"},
		{[]string{"src/a", "src/b"}, "src"},
		{[]string{"src/x/a", "src/y/b"}, "src"},
		{[]string{"src/x/a", "src/b"}, "src"},
		{[]string{"src/a", "src/x/b"}, "src"},
		{[]string{"src/a", "srcs/b"}, "."},
		{[]string{"a.txt"}, "."},
		{[]string{".gitignore"}, "."},
		{[]string{".envrc"}, ""},
		{[]string{".unknown"}, ""},
		{[]string{"a/b/c/d", "a/b/c/e/f"}, "a/b/c"},
	} {
		p := call(t, "src/a.txt").Plan
		p.Writes = test.writes
		if root, ok := pathRoot(p); ok != (test.root != "") || ok && root != test.root {
			t.Errorf("%v: %q %v, want %q", test.writes, root, ok, test.root)
		}
	}
}

// An operator who wants no hold gets none.
func TestNoHold(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.DenyHold = 0 })
	w.decide(w.ask(call(t, "src/a.txt")), palyra.AnswerDeny)
	w.ask(call(t, "src/a.txt", inSession(session2)))
}

// A room asks out of a share of its own: it leaves its namesakes theirs, and a room in
// it has none beside. A grant that it got is its own too.
func TestARoomAsksInItsOwnShare(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxPending = 2 })
	in := func(line ...palyra.CallID) func(*palyra.Call) {
		return func(c *palyra.Call) { c.Proposal.Room, c.Proposal.Line = line[len(line)-1], line }
	}
	for i := range 2 {
		w.ask(call(t, fmt.Sprintf("src/%d.txt", i), in("A")))
	}
	for _, line := range [][]palyra.CallID{{"A"}, {"A", "N"}} {
		_, err := w.tryAsk(call(t, "src/more.txt", in(line...)))
		wantErr(t, err, palyra.Exhausted, palyra.ReasonTooManyPending)
	}
	w.ask(call(t, "src/more.txt"))
	w.ask(call(t, "src/other.txt", in("B")))

	c := call(t, "src/a.txt", in("B"))
	terms := exactTerms(w.ask(call(t, "src/a.txt", in("C"))))
	if covers(terms, palyra.RiskCritical, c) || terms.Room != "C" {
		t.Errorf("a grant of another room covers: %+v", terms)
	}
}
