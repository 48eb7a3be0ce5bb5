package gate

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// strict signs only what the real attester can.
func strict(w *world) func(context.Context, palyra.Predicate) error {
	return func(_ context.Context, p palyra.Predicate) error {
		w.signed = append(w.signed, p)
		_, err := p.Execution()
		return err
	}
}

// A run chooses names of files, and says why it failed: none of that keeps its
// call from being attested.
func TestWhateverARunChoosesItIsAttested(t *testing.T) {
	bad := "a\xff/\u202e\n"
	for name, res := range map[string]palyra.Result{
		"a name":            {Quarantined: []string{bad + ".envrc"}},
		"what killed it":    {KillReason: palyra.Stop(bad)},
		"a signal":          {Signal: bad},
		"why it failed":     {Failure: &palyra.Refusal{Text: bad, Remedy: bad}},
		"output":            {Stdout: []byte(bad), Stderr: []byte(bad)},
		"a result":          {Output: json.RawMessage("{\"a\":\"\xff\"}")},
		"no result at all":  {Output: json.RawMessage(`{"a":`)},
		"a host":            {Egress: []palyra.EgressFlow{{Host: bad}, {Host: "b"}}, Omitted: 3},
		"what it ran in":    {Executor: bad},
		"what held":         {Enforcement: palyra.Enforcement{Mode: palyra.NetworkMode(bad), Mechanisms: []string{bad}}},
		"a limit that held": {Enforcement: palyra.Enforcement{Limits: map[string]palyra.Hold{bad: palyra.Hold(bad)}}},
	} {
		w := newWorld(t)
		w.signs = strict(w)
		w.execute = func(context.Context, palyra.Launch) palyra.Result { return res }
		out, err := w.do(t.Context())
		if err != nil || out.Attestation == nil || w.rows[callID].State != palyra.Finished {
			t.Errorf("%s: %+v, %v; the call is %s", name, out, err, w.rows[callID].State)
			continue
		}
		f := w.journal[len(w.journal)-1].(palyra.CallFinished)
		p := w.signed[len(w.signed)-1]
		if !slices.Equal(f.Reduced, p.Reduced) || (len(w.signed) > 1) != (len(p.Reduced) > 0) {
			t.Errorf("%s: signed %d times, reduced %v, on record %v", name, len(w.signed), p.Reduced, f.Reduced)
		}
		if name == "a host" && (p.EgressOmitted != 5 || len(p.Egress) > 0) {
			t.Errorf("%d connections omitted, %d listed", p.EgressOmitted, len(p.Egress))
		}
		if name == "a name" && (len(w.signed) != 1 || len(p.Quarantined) != 1 || !slices.Equal(p.Quarantined, out.Quarantined)) {
			t.Errorf("attested %q, told %q", p.Quarantined, out.Quarantined)
		}
		if body, err := out.BodyDigest(); err != nil || body != p.OutcomeDigest {
			t.Errorf("%s: the outcome is not the one that was signed: %v", name, err)
		}
	}
}

// A fault of the signer that passes costs no evidence: the whole is tried again before
// anything is left out.
func TestAFaultThatPassesCostsNoEvidence(t *testing.T) {
	for faults, want := range []int{0, 0, 1} {
		w := newWorld(t)
		tries := 0
		w.signs = func(context.Context, palyra.Predicate) error {
			if tries++; tries <= faults {
				return errStop
			}
			return nil
		}
		out, err := w.do(t.Context())
		f, ok := w.journal[len(w.journal)-1].(palyra.CallFinished)
		if err != nil || !ok || out.Attestation == nil || min(1, len(f.Reduced)) != want || tries != faults+1 {
			t.Errorf("%d faults: %d tries, reduced %v, %v", faults, tries, f.Reduced, err)
		}
	}
}

// Without a signature nothing vouches for the output; the call ends all the same.
func TestWithoutASignatureTheOutputIsWithheld(t *testing.T) {
	w := newWorld(t)
	w.sign = func(context.Context) error { return errStop }
	out, err := w.do(t.Context())
	if err != nil || out.Outcome != palyra.OutcomeUnknown || out.ExitCode != palyra.ExitUnknown || out.Stdout != "" || out.Output != nil {
		t.Errorf("got %+v, %v", out, err)
	}
	if row := w.rows[callID]; row.State != palyra.Unknown {
		t.Errorf("the durable call is %s", row.State)
	}
	if last, ok := w.journal[len(w.journal)-1].(palyra.CallUnknown); !ok || last.State != palyra.Running {
		t.Errorf("the last line is %+v", w.journal[len(w.journal)-1])
	}
}

// An attester that panics is one that cannot sign.
func TestAPanicOfTheAttesterEndsTheCall(t *testing.T) {
	w := newWorld(t)
	w.sign = func(context.Context) error { panic("no key") }
	if out, err := w.do(t.Context()); err != nil || out.Outcome != palyra.OutcomeUnknown {
		t.Errorf("got %+v, %v", out, err)
	}
}

// A thousand long names do not fill the record.
func TestNamesOfARunAreBounded(t *testing.T) {
	w := newWorld(t)
	w.signs = strict(w)
	names := make([]string, 1000)
	for i := range names {
		names[i] = strings.Repeat("x\xff", 2000) + "/.envrc"
	}
	w.execute = func(context.Context, palyra.Launch) palyra.Result {
		return palyra.Result{Quarantined: names, More: 50, Failure: &palyra.Refusal{Text: strings.Repeat("y", 1<<20)}}
	}
	out, err := w.do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := out.Marshal()
	if err != nil || len(text) > 64<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if n := len(out.Quarantined); n == 0 || out.Quarantined[n-1] != "… and 1049 more" && out.Quarantined[n-1] != "… and 1050 more" {
		t.Errorf("%d names, the last is %.40q", n, out.Quarantined[n-1])
	}
}
