package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/questiontest"
	"palyra/internal/config"
)

func sampleCall() palyra.Call {
	o := sampleOutcome()
	return palyra.Call{
		ID: questiontest.SampleID, State: palyra.Finished, Digest: questiontest.SampleDigest, Grant: questiontest.SampleID, Approval: questiontest.SampleID, Proposed: questiontest.SampleNow, Finished: questiontest.SampleNow.Add(time.Second),
		Proposal: palyra.Proposal{Tool: "palyra.fs.write", Principal: "agent:local", Owner: "user:ann", Surface: palyra.SurfaceCLI, Session: questiontest.SampleID, Workspace: "/home/ann/shop"},
		Detail:   palyra.Detail{Summary: "write a.txt"}, Verdict: palyra.Verdict{Effect: palyra.Ask, Bundle: questiontest.SampleDigest},
		Decision: palyra.Decision{Answer: palyra.AnswerAllow}, Outcome: &o,
	}
}

func sampleAttestation() palyra.Attestation {
	return palyra.Attestation{
		ID: questiontest.SampleID, Call: questiontest.SampleID, Digest: questiontest.SampleDigest,
		Predicate: palyra.Predicate{
			CallID: questiontest.SampleID, SessionID: questiontest.SampleID, Principal: "agent:local", Surface: palyra.SurfaceCLI, Tool: "palyra.fs.write", PlanDigest: questiontest.SampleDigest, Verdict: palyra.Ask,
			Policies: []string{"ask-write"}, Decision: &palyra.Decision{Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, By: "user:ann"},
			Separation: palyra.SeparationPassphrase, Tier: palyra.TierBuiltin, Executor: "builtin", Enforcement: palyra.Enforcement{Mode: "none"},
			Outcome: palyra.OutcomeFinished, StartedAt: "2026-11-15T12:00:00Z", FinishedAt: "2026-11-15T12:00:01Z", Granted: palyra.Position{Seq: 9},
		},
	}
}

func sampleStatus() client.Status {
	return client.Status{
		Version: "1.2.3", StateID: "01KA3V3Q6M5D8W0Z1Y2X3C4STA", PID: 42, UID: 1000, StartedAt: questiontest.SampleNow.Add(-26 * time.Hour), Home: "/home/ann/.palyra", KeysDir: "/home/ann/.palyra/keys",
		AgentSocket: "/run/agent.sock", OperatorSocket: "/run/operator.sock", JournalSize: 12, JournalOK: false, Bundle: questiontest.SampleDigest, Preset: "default",
		Separation: palyra.SeparationNone, Pending: 3, Running: 1, Problems: []string{"the disk is nearly full"}, Features: map[string]string{"tier_c": "off", "tier_b": "off"},
	}
}

// What commands print for people, page by page.
func TestWords(t *testing.T) {
	words := map[string]func(*invocation.Invocation, io.Writer) error{
		"call": func(_ *invocation.Invocation, w io.Writer) error {
			printCall(w, sampleCall(), questiontest.SampleID)
			return nil
		},
		"call-process": func(_ *invocation.Invocation, w io.Writer) error {
			x := sampleCall()
			x.Plan = questiontest.ProcessApproval().Plan
			printCall(w, x, questiontest.SampleID)
			return nil
		},
		"call-early": func(_ *invocation.Invocation, w io.Writer) error {
			printCall(w, palyra.Call{ID: questiontest.SampleID, State: palyra.Proposed}, "")
			return nil
		},
		"attestation": func(_ *invocation.Invocation, w io.Writer) error { printPredicate(w, sampleAttestation()); return nil },
		"status":      func(inv *invocation.Invocation, w io.Writer) error { printStatus(inv, w, sampleStatus()); return nil },
		"attest-good": func(_ *invocation.Invocation, w io.Writer) error {
			printAttestReport(w, evidence.AttestationReport{Form: "outcome", KeyID: "k1", CallID: questiontest.SampleID, Tool: "palyra.echo", Checked: []string{"signature", "ids"}, Warnings: []string{"whose key it is was not checked"}})
			return nil
		},
		"greeting": func(inv *invocation.Invocation, _ io.Writer) error {
			u := launch{inv: inv, paths: config.Paths{OperatorKey: "/home/ann/operator.key"}, log: "/home/ann/palyrad.log"}
			return u.greet(sampleStatus(), true)
		},
		"greeting-again": func(inv *invocation.Invocation, _ io.Writer) error {
			return (&launch{inv: inv}).greet(sampleStatus(), false)
		},
	}
	for name, f := range words {
		questiontest.Golden(t, name+".txt", shown(t, false, func(inv *invocation.Invocation) error { return f(inv, inv.Stdout) }))
	}
	questiontest.Golden(t, "greeting.json", shown(t, true, func(inv *invocation.Invocation) error { return (&launch{inv: inv}).greet(sampleStatus(), true) }))
}

func TestPredicateWithoutAPerson(t *testing.T) {
	at := sampleAttestation()
	at.Predicate.Decision = nil
	var b bytes.Buffer
	printPredicate(&b, at)
	if !strings.Contains(b.String(), "policy alone") {
		t.Error(b.String())
	}
	b.Reset()
	printAttestReport(&b, evidence.AttestationReport{})
	if !strings.Contains(b.String(), "policy alone") {
		t.Error(b.String())
	}
}

func TestCovers(t *testing.T) {
	for want, terms := range map[string]palyra.Terms{
		"palyra.fs.write, exactly one plan":                 {Tool: "palyra.fs.write", PlanDigest: questiontest.SampleDigest},
		"palyra.fs.write, writes under src, in /w":          {Tool: "palyra.fs.write", PathRoot: "src", Workspace: "/w"},
		"edits of files under src, in /w":                   {Tool: "palyra.fs.write", Tools: []string{"palyra.fs.edit", "palyra.fs.write"}, PathRoot: "src", Workspace: "/w"},
		"palyra.process.run /usr/bin/git, exactly one plan": {Tool: "palyra.process.run", Program: "/usr/bin/git", PlanDigest: questiontest.SampleDigest},
	} {
		if got := covers(terms); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLeaseState(t *testing.T) {
	inv := &invocation.Invocation{Now: func() time.Time { return questiontest.SampleNow }}
	for want, l := range map[string]palyra.Lease{
		"live":      {},
		"live 2m0s": {ExpiresAt: questiontest.SampleNow.Add(2 * time.Minute)},
		"live now":  {ExpiresAt: questiontest.SampleNow},
		"revoked":   {Ended: "revoked", ExpiresAt: questiontest.SampleNow.Add(time.Hour)},
	} {
		if got := leaseState(inv, l); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if uses(-1) != "no count" || uses(0) != "0" {
		t.Error("uses")
	}
}

func TestNeed(t *testing.T) {
	for want, n := range map[string]palyra.Need{
		"1 person":                               {},
		"2 different people":                     {Votes: 2, Separation: palyra.SeparationNone},
		"1 person, separation device or better":  {Votes: 1, Separation: palyra.SeparationDevice},
		"1 person, not the agent's owner":        {Votes: 1, OtherPerson: true},
		"1 person, signed by a paired device":    {Votes: 1, Device: true},
		"1 person, for this call only":           {Votes: 1, Fresh: true},
		`1 person, separation \x1b or better`:    {Votes: 1, Separation: "\x1b"},
		"3 different people, for this call only": {Votes: 3, Fresh: true},
	} {
		if got := question.Need(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTiers(t *testing.T) {
	seen := map[string]bool{}
	for _, tier := range []palyra.Tier{palyra.TierBuiltin, palyra.TierA, palyra.TierB, palyra.TierC, palyra.TierNode, "z"} {
		text := question.TierText(tier)
		if text == "" || seen[text] {
			t.Errorf("%s: %q", tier, text)
		}
		seen[text] = true
	}
}

func TestLimits(t *testing.T) {
	if got := question.Limits(palyra.Limits{}); got != "those of the tier" {
		t.Error(got)
	}
	got := question.Limits(palyra.Limits{WallMS: 500, CPUMS: 2000, MemoryBytes: 1 << 20, Processes: 2, OpenFiles: 3, FileBytes: 4, OutputBytes: 5, EmittedBytes: 6, DiskBytes: 7})
	if want := "time 500ms, CPU 2s, memory 1 MiB, processes 2, open files 3, file size 4 bytes, output 5 bytes, printed in all 6 bytes, written to disk 7 bytes"; got != want {
		t.Error(got)
	}
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		`{ "a" : "x\ty" }`:         `{"a":"x\ty"}`,
		`{"a":"` + "\u202e" + `"}`: `{"a":"\u202e"}`,
		`{"a":"\u001b\n\\n"}`:      `{"a":"\u001b\n\\n"}`,
		`{"a":"\\x1b\u200b"}`:      `{"a":"\\x1b\u200b"}`,
		"{\"a\":\"\u007f\"}":       `{"a":"\u007f"}`,
		"{\"a\":\"\xff\"}":         `{"a":"\xff"}`,
		`{"a":`:                    `{"a":`,
		"not\x1bjson":              `not\x1bjson`,
	} {
		if got := question.Arguments(json.RawMessage(in)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestReadable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "", "a b": "", "tab\t": "", "caf\u00e9": "  reads: café", "\u202e": "", "文件 x": "  reads: 文件 x", "\xff": "",
	} {
		if got := question.Readable(in); got != want {
			t.Errorf("readable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestReachText(t *testing.T) {
	for want, r := range map[string]client.DecideRequest{
		"it":                          {Answer: palyra.AnswerDeny},
		"once":                        {Answer: palyra.AnswerAllow},
		"for the session":             {Answer: palyra.AnswerAllow, Scope: palyra.ScopeSession},
		"for 30m0s":                   {Answer: palyra.AnswerAllow, Scope: palyra.ScopeTimeboxed, TTL: 30 * time.Minute},
		"once, widened to path_root":  {Answer: palyra.AnswerAllow, Widen: "path_root"},
		`once, widened to "\x1b\x1b"`: {Answer: palyra.AnswerAllow, Widen: "\x1b\x1b"},
	} {
		if got := reachText(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestApprovalFilter(t *testing.T) {
	f := approvalFilter{subject: "tool", principal: "agent:local", answer: "deny", since: "1h", until: "2026-11-15T11:30:00Z"}
	f.Limit, f.OldestFirst, f.SubjectID = 5, true, "x"
	got, err := f.filter(questiontest.SampleNow)
	want := client.ApprovalFilter{
		SubjectType: palyra.SubjectTool, SubjectID: "x", Principal: "agent:local", Answer: palyra.AnswerDeny, Since: questiontest.SampleNow.Add(-time.Hour),
		Until: questiontest.SampleNow.Add(-30 * time.Minute), OldestFirst: true, Limit: 5,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []approvalFilter{{answer: "x"}, {since: "x"}, {until: "x"}} {
		if _, err := bad.filter(questiontest.SampleNow); exit.Of(err) != exit.Usage {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestProgressOnlyOnATerminal(t *testing.T) {
	inv := &invocation.Invocation{Stderr: &bytes.Buffer{}}
	if progress(inv, "checked") != nil {
		t.Error("a buffer gets progress")
	}
}

func TestFirstSentence(t *testing.T) {
	for in, want := range map[string]string{"One. Two.": "One.", "One.\nTwo": "One.", "One": "One", "": "", "v1.2 of it": "v1.2 of it"} {
		if got := firstSentence(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestSettingText(t *testing.T) {
	if settingText([]string{"a", "b"}) != "a, b" || settingText(int64(5)) != "5" || settingText("x") != "x" {
		t.Error("settingText")
	}
}
