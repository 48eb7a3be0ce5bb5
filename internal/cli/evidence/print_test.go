package evidence

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/invocationtest"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/screen"
)

func sampleAttestation() palyra.Attestation {
	return palyra.Attestation{
		ID: questiontest.SampleID, Call: questiontest.SampleID, Digest: questiontest.SampleDigest,
		Predicate: palyra.Predicate{
			CallID: questiontest.SampleID, SessionID: questiontest.SampleID, Principal: "agent:local", Surface: palyra.SurfaceCLI,
			Tool: "palyra.fs.write", PlanDigest: questiontest.SampleDigest, Verdict: palyra.Ask,
			Policies: []string{"ask-write"}, Decision: &palyra.Decision{Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, By: "user:ann"},
			Separation: palyra.SeparationPassphrase, Tier: palyra.TierBuiltin, Executor: "builtin", Enforcement: palyra.Enforcement{Mode: "none"},
			Outcome: palyra.OutcomeFinished, StartedAt: "2026-11-15T12:00:00Z", FinishedAt: "2026-11-15T12:00:01Z", Granted: palyra.Position{Seq: 9},
		},
	}
}

// What attestations and the checks of them look like, for people.
func TestAttestationsInWords(t *testing.T) {
	good := evidence.AttestationReport{
		Form: "outcome", KeyID: "k1", CallID: questiontest.SampleID, Tool: "palyra.echo", Checked: []string{"signature", "ids"},
		Warnings: []string{"whose key it is was not checked"},
	}
	for name, print := range map[string]func(io.Writer){
		"attestation": func(w io.Writer) { printPredicate(w, sampleAttestation()) },
		"attest-good": func(w io.Writer) { printAttestReport(w, good) },
	} {
		questiontest.Golden(t, name+".txt", invocationtest.Shown(t, false, func(inv *invocation.Invocation) error {
			print(inv.Stdout)
			return nil
		}))
	}
}

// The report of a journal, in words and as JSON.
func TestReportShapes(t *testing.T) {
	report := func(inv *invocation.Invocation) error {
		return printReport(inv, client.Report{OK: true, Entries: 3, Root: questiontest.SampleDigest, KeyIDs: []string{"k1"}})
	}
	questiontest.Golden(t, "report.json", invocationtest.Shown(t, true, report))
	questiontest.Golden(t, "report.txt", invocationtest.Shown(t, false, report))
}

// What the daemon, or whoever speaks through it, puts into evidence reaches the
// terminal as text.
func TestPrintersOfEvidenceMakeTextSafe(t *testing.T) {
	invocationtest.CheckSafe(t, map[string]invocationtest.Printer{
		"predicate": func(_ *invocation.Invocation, w io.Writer) error {
			printPredicate(w, questiontest.Poisoned[palyra.Attestation]())
			return nil
		},
		"attest": func(_ *invocation.Invocation, w io.Writer) error {
			printAttestReport(w, questiontest.Poisoned[evidence.AttestationReport]())
			return nil
		},
		"entry": func(_ *invocation.Invocation, w io.Writer) error {
			_, err := io.WriteString(w, entryLine(questiontest.Poisoned[palyra.Entry]()))
			return err
		},
	})
}

// The JSON of a checked export keeps every character.
func TestJSONOfAnExportIsSafeAndTrue(t *testing.T) {
	questiontest.CheckJSON(t, "export", goodExport{true, questiontest.Poisoned[evidence.ApprovalsReport]()}, screen.Encode)
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

func TestProgressOnlyOnATerminal(t *testing.T) {
	inv := &invocation.Invocation{Stderr: &bytes.Buffer{}}
	if progress(inv, "checked") != nil {
		t.Error("a buffer gets progress")
	}
}

// An attestation says by what a run was held, and by what not.
func TestPredicateTellsWhatHeld(t *testing.T) {
	at := sampleAttestation()
	at.Predicate.Enforcement = palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"bubblewrap", "seccomp"},
		Limits: map[string]palyra.Hold{"memory": "polled", "processes": "rlimit", "cpu": "rlimit+polled", "disk": "none"},
	}
	var out bytes.Buffer
	printPredicate(&out, at)
	for _, want := range []string{
		"Network           strict\n", "Held by           bubblewrap, seccomp\n",
		"Limits            cpu=rlimit+polled disk=none memory=polled processes=rlimit\n",
		"NOT enforced      disk (not limited), memory (only counted now and then)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

// Who gives a check what --json prints is told what to give instead.
func TestAboutForm(t *testing.T) {
	bad := palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bad").WithRemedy("old")
	for raw, want := range map[string]string{
		`{"postures":[]}`:                      "palyra sandbox posture DIGEST --envelope",
		`{"posture":{},"envelope":{}}`:         "palyra sandbox posture DIGEST --envelope",
		`{"attestation_id":"X","envelope":{}}`: "palyra attest show REF --envelope",
		`{"payload":"x"}`:                      "old",
		`nonsense`:                             "old",
		`[]`:                                   "old",
	} {
		if got := palyra.AsError(aboutForm([]byte(raw), bad)); !strings.Contains(got.Remedy, want) || got.Text != "bad" {
			t.Errorf("%s: %+v", raw, got)
		}
	}
}

// What a run reached, and what it was refused, stands in the text as well.
func TestAttestationsShowTheirFlows(t *testing.T) {
	at := palyra.Attestation{ID: "A", Predicate: palyra.Predicate{
		CallID: "C", EgressOmitted: 3, Quarantined: []palyra.PathText{".git/hooks/x\x1b"}, Egress: []palyra.EgressFlow{
			{Door: "connect", Host: "good.example", Port: 443, Address: "192.0.2.1", In: 10, Out: 20, Verdict: "allow", Grant: "G"},
			{Door: "dns", Host: "bad.example\x1b[2J", Verdict: "deny"},
		},
	}}
	var b bytes.Buffer
	printPredicate(&b, at)
	words := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"HOST VERDICT DOOR ADDRESS BYTES IN BYTES OUT", "good.example:443 allow by G connect 192.0.2.1 10 20", `bad.example\x1b[2J deny dns 0 0`,
		"and 3 connections that are not listed", `quarantined: ".git/hooks/x\x1b"`,
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	b.Reset()
	printPredicate(&b, palyra.Attestation{})
	if strings.Contains(b.String(), "HOST") {
		t.Error(b.String())
	}
}

// A key file that is not there is no riddle.
func TestAMissingKeyFileHasARemedy(t *testing.T) {
	_, err := readTrust([]string{filepath.Join(t.TempDir(), "trust.json")})
	if e := palyra.AsError(err); e.Reason != palyra.ReasonFileNotFound || !strings.Contains(e.Remedy, "palyra keys export > trust.json") {
		t.Errorf("%v, %q", err, e.Remedy)
	}
}
