package attest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/attest"
	"palyra/internal/attest/attesttest"
)

func TestGenuineIsAccepted(t *testing.T) {
	for _, s := range attesttest.Genuine() {
		r, err := attest.Verify(s.Text, attesttest.Trust())
		if err != nil {
			t.Errorf("%s: %v\n%s", s.Name, err, s.Text)
			continue
		}
		if want := "outcome"; strings.Contains(s.Name, ", envelope") != (r.Form != want) {
			t.Errorf("%s: taken for an %s", s.Name, r.Form)
		}
	}
}

func TestForgeriesAreRefused(t *testing.T) {
	texts := map[string]string{}
	for _, s := range attesttest.Forgeries() {
		_, err := attest.Verify(s.Text, attesttest.Trust())
		e := palyra.AsError(err)
		if err == nil || e.Reason != palyra.ReasonVerifyFailed || e.Remedy == "" {
			t.Errorf("%s: %v", s.Name, err)
		}
		texts[e.Text] += s.Name + "; "
	}
	for text, names := range texts {
		t.Logf("%s ← %s", text, names)
	}
}

// The promise of the format: whatever byte is changed, to whatever value, is
// noticed, unless it is white space between tokens.
func TestEveryByteCounts(t *testing.T) {
	outcome, _ := attesttest.NewRun().Seal()
	short := attesttest.NewRun()
	attesttest.ByPolicy(short)
	_, envelope := short.Seal()
	for name, text := range map[string][]byte{"outcome": outcome, "envelope": envelope, "spaced": spaced(envelope)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accepted, n := 0, 0
			attesttest.Mutants(text, func(pos int, mutant []byte, same bool) {
				n++
				_, err := attest.Verify(mutant, attesttest.Trust())
				if (err == nil) != same {
					t.Errorf("byte %d: %.60q…: %v", pos, mutant[max(0, pos-20):], err)
				}
				if err == nil {
					accepted++
				}
			})
			if n < len(text) {
				t.Errorf("only %d changes of %d bytes tried", n, len(text))
			}
			if (name == "spaced") != (accepted > 0) {
				t.Errorf("%d of %d changes accepted", accepted, n)
			}
		})
	}
}

// spaced puts white space between the tokens.
func spaced(raw []byte) []byte {
	var buf bytes.Buffer
	_ = json.Indent(&buf, raw, "", "   ")
	return buf.Bytes()
}

func TestReport(t *testing.T) {
	outcome, envelope := attesttest.NewRun().Seal()
	got, err := attest.Verify(outcome, attesttest.Trust())
	if err != nil {
		t.Fatal(err)
	}
	p := attesttest.NewRun().Predicate
	want := attest.Report{
		Form: "outcome", AttestationID: p.AttestationID, StateID: attesttest.StateID, Digest: palyra.SumBytes(envelope), CallID: p.CallID,
		Tool: p.Tool, Principal: p.Principal,
		PlanDigest: p.PlanDigest, DecidedBy: []palyra.Principal{"user:ada"}, Separation: p.Separation, Tier: p.Tier, Executor: p.Executor,
		Enforcement: p.Enforcement, Outcome: p.Outcome, ExitCode: 3, StartedAt: p.StartedAt, FinishedAt: p.FinishedAt, Granted: p.Granted,
		KeyID: attesttest.Daemon.KeyID(), Warnings: []string{},
		Checked: []string{
			"envelope form", "daemon signature", "statement", "execution_sha256", "grant terms", "approver signatures", "outcome_sha256",
			"ids, plan digest, exit code, journal position", "stdout and stderr",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWarnings(t *testing.T) {
	trust := attesttest.Trust()
	_, envelope := attesttest.NewRun().Seal()
	warns := func(trust attest.Trust, text []byte, want string) {
		t.Helper()
		r, err := attest.Verify(text, trust)
		if err != nil || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("%v, %v: want a warning about %q", r.Warnings, err, want)
		}
	}
	open := trust
	open.OperatorKeys = nil
	warns(open, envelope, "not pinned")
	finished := time.Date(2026, 11, 15, 12, 0, 1, 0, time.UTC)
	old := trust
	old.Keys = []palyra.Key{trust.Keys[0]}
	old.Keys[0].RetiredAt = finished.Add(-time.Hour)
	warns(old, envelope, "retired")
	old.Keys[0].RetiredAt = finished.Add(time.Hour)
	if r, err := attest.Verify(envelope, old); err != nil || len(r.Warnings) != 0 {
		t.Errorf("retired later: %v %v", r.Warnings, err)
	}
	for _, s := range attesttest.Genuine() {
		switch s.Name {
		case "covered by an earlier answer":
			warns(trust, s.Text, "nobody was asked again")
		case "covered by an earlier answer to another plan":
			warns(trust, s.Text, "saw plan "+string(attesttest.NewRun().Predicate.PlanDigest))
		case "output cut":
			warns(trust, s.Text, "cut")
		}
	}
}

func TestTrust(t *testing.T) {
	_, envelope := attesttest.NewRun().Seal()
	daemon, ada, bob := attesttest.Daemon.Public(), attesttest.Ada.Public(), attesttest.Bob.Public()
	key := func(use palyra.KeyUse, pub string) palyra.Key {
		return palyra.Key{ID: attesttest.Daemon.KeyID(), Use: use, PublicKey: pub}
	}
	for name, c := range map[string]struct {
		trust attest.Trust
		ok    bool
	}{
		"daemon":            {attest.Trust{Keys: []palyra.Key{key("attestation", daemon)}}, true},
		"bare key":          {attest.Trust{Keys: []palyra.Key{key("", daemon)}}, true},
		"among others":      {attest.Trust{Keys: []palyra.Key{key("", ada), key("", "x"), key("", daemon)}}, true},
		"pinned":            {attest.Trust{Keys: []palyra.Key{key("", daemon)}, OperatorKeys: []string{bob, ada}}, true},
		"nobody":            {attest.Trust{}, false},
		"id is not enough":  {attest.Trust{Keys: []palyra.Key{key("attestation", ada)}}, false},
		"journal key":       {attest.Trust{Keys: []palyra.Key{key("journal", daemon)}}, false},
		"another operator":  {attest.Trust{Keys: []palyra.Key{key("", daemon)}, OperatorKeys: []string{bob}}, false},
		"malformed pin":     {attest.Trust{Keys: []palyra.Key{key("", daemon)}, OperatorKeys: []string{""}}, false},
		"operator's as own": {attest.Trust{Keys: []palyra.Key{key("", ada)}}, false},
	} {
		if _, err := attest.Verify(envelope, c.trust); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyOf(t *testing.T) {
	k, err := attest.KeyOf(attesttest.Daemon.Public())
	if err != nil || k.ID != attesttest.Daemon.KeyID() {
		t.Errorf("%+v %v", k, err)
	}
	_, envelope := attesttest.NewRun().Seal()
	if _, err := attest.Verify(envelope, attest.Trust{Keys: []palyra.Key{k}}); err != nil {
		t.Error(err)
	}
	short := base64.StdEncoding.EncodeToString(make([]byte, 31))
	for _, s := range []string{"", "x", short, attesttest.Daemon.Public() + "\n", strings.TrimRight(attesttest.Daemon.Public(), "=")} {
		if k, err := attest.KeyOf(s); err == nil {
			t.Errorf("%q taken for key %v", s, k)
		}
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := attest.Verify(make([]byte, attest.MaxInput+1), attest.Trust{}); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Error(err)
	}
}

// Property: nothing but the samples themselves, up to white space, is accepted:
// nobody else has the daemon's key.
func FuzzVerify(f *testing.F) {
	var known [][]byte
	for _, s := range append(attesttest.Genuine(), attesttest.Forgeries()...) {
		f.Add(s.Text)
	}
	for _, s := range attesttest.Genuine() {
		known = append(known, compacted(s.Text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := attest.Verify(text, attesttest.Trust()); err != nil {
			return
		}
		got := compacted(text)
		if !slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, got) }) {
			t.Fatalf("accepted %q", text)
		}
	})
}

// A payload that the key did sign must still be ours, byte for byte: here a
// daemon gone bad signs noise.
func TestSignedNoise(t *testing.T) {
	_, envelope := attesttest.NewRun().Seal()
	payload := attesttest.Payload(envelope)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		noise := attesttest.Mutate(rnd, payload)
		if bytes.Equal(noise, payload) {
			continue
		}
		if _, err := attest.Verify(attesttest.Envelope(noise), attesttest.Trust()); err == nil {
			t.Fatalf("accepted %s", noise)
		}
	}
}

func compacted(text []byte) []byte {
	var buf bytes.Buffer
	_ = json.Compact(&buf, text)
	return buf.Bytes()
}
