package palyra_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra"
)

func sampleOutcome() palyra.Outcome {
	o := palyra.Outcome{
		Outcome: palyra.OutcomeFinished, Tool: "palyra.fs.write", Policies: []string{"ask-sensitive"}, ExitCode: 3,
		Output: json.RawMessage("{ \"bytes\": 1,\n \"note\": \"<&>\" }"), SessionID: "01ARZ3NDEKTSV4RRFFQ69G5FAS",
		CallID: "01ARZ3NDEKTSV4RRFFQ69G5FAC", ApprovalID: "01ARZ3NDEKTSV4RRFFQ69G5FAA", GrantID: "01ARZ3NDEKTSV4RRFFQ69G5FAG",
		PlanDigest: palyra.SumBytes([]byte("plan")), JournalPosition: 42,
		Attestation: &palyra.Envelope{
			PayloadType: palyra.PayloadType, Payload: "e30=", Signatures: []palyra.EnvelopeSignature{{KeyID: "k", Sig: "c2ln"}},
		},
	}
	o.SetStreams([]byte("a<b>&\"é\n"), []byte{'x', 0xff})
	return o
}

// The text is a contract with every agent that reads it: docs/formats.md has
// the fields one by one.
func TestOutcomeGolden(t *testing.T) {
	for name, o := range map[string]palyra.Outcome{"testdata/outcome.json": sampleOutcome(), "testdata/outcome-empty.json": {}} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != string(want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

func TestOutcomeIsAlwaysWhole(t *testing.T) {
	var keys []string
	tags(typeOf[palyra.Outcome](), map[typ]bool{typeOf[palyra.Envelope](): true, typeOf[palyra.Effects](): true},
		func(_ typ, _ field, name string) {
			keys = append(keys, name)
		})
	if keys[len(keys)-1] != "attestation" {
		t.Errorf("the last field is %s: what follows the attestation is not bound by it", keys[len(keys)-1])
	}
	for _, o := range []palyra.Outcome{{}, sampleOutcome()} {
		b, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(b))
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
		for i, want := range keys {
			if leftOut := []string{"left_behind", "effects", "changes", "input_changed"}; slices.Contains(leftOut, want) &&
				!bytes.Contains(b, []byte(`"`+want+`":`)) {
				continue // younger than outcomes that people have kept: it is there when it says something
			}
			tok, err := dec.Token()
			if err != nil || tok != want {
				t.Fatalf("field %d is %v (%v), want %s", i, tok, err, want)
			}
			var skip json.RawMessage
			if err := dec.Decode(&skip); err != nil {
				t.Fatal(err)
			}
		}
		if dec.More() {
			t.Error("more fields than the contract has")
		}
	}
}

func TestBodyIsThePrefixOfTheText(t *testing.T) {
	for _, o := range []palyra.Outcome{
		{},
		sampleOutcome(),
		{Stdout: `,"attestation":null}`, Attestation: &palyra.Envelope{}},
		{Output: json.RawMessage(`{"attestation":null}`)},
		{Reason: `","attestation":null}`},
	} {
		whole, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		body, err := o.Body()
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := bytes.CutPrefix(whole, body)
		if !ok || !bytes.HasPrefix(rest, []byte(`,"attestation":`)) || !bytes.HasSuffix(rest, []byte("}")) {
			t.Errorf("body %s\nis not the start of %s", body, whole)
		}
		if !json.Valid(append(bytes.Clone(body), '}')) {
			t.Errorf("the body ends in the middle of a value: %s", body)
		}
		d, err := o.BodyDigest()
		if err != nil || d != palyra.SumBytes(body) {
			t.Errorf("digest %s, %v", d, err)
		}
	}
}

// The attestation is made from the body, so it must not be part of it; all the
// rest must.
func TestEveryFieldOfTheOutcomeButTheAttestationCounts(t *testing.T) {
	o := sampleOutcome()
	with, _ := o.BodyDigest()
	o.Attestation = nil
	if without, _ := o.BodyDigest(); without != with {
		t.Error("the attestation binds itself")
	}
	everyFieldCounts(t, func(o palyra.Outcome) (palyra.Digest, error) {
		att, err := json.Marshal(o.Attestation)
		if err != nil {
			return "", err
		}
		body, err := o.Body()
		return palyra.SumBytes(append(body, att...)), err
	})
}

func TestStreams(t *testing.T) {
	for _, c := range []struct{ in, text, b64 string }{
		{"", "", ""}, {"plain\n", "plain\n", ""}, {"é\x00", "é\x00", ""}, {"\xff", "", "/w=="}, {"\xed\xa0\x80", "", "7aCA"},
	} {
		var o palyra.Outcome
		o.SetStreams([]byte(c.in), []byte(c.in))
		if o.Stdout != c.text || o.StdoutB64 != c.b64 || o.Stderr != c.text || o.StderrB64 != c.b64 {
			t.Errorf("%q: %q %q %q %q", c.in, o.Stdout, o.StdoutB64, o.Stderr, o.StderrB64)
		}
	}
	o := palyra.Outcome{StdoutB64: "left over"}
	o.SetStreams(nil, nil)
	if o.StdoutB64 != "" {
		t.Error("an old stream stays behind a new one")
	}
}

func TestOutcomeRefusesOutputThatIsNotJSON(t *testing.T) {
	for _, bad := range []string{"{", "nul", `{"a":1}}`, "\xff"} {
		if b, err := (palyra.Outcome{Output: json.RawMessage(bad)}).Marshal(); err == nil {
			t.Errorf("%q marshals as %s", bad, b)
		}
	}
}

// Property: whatever a tool prints, the text is one line of JSON that reads
// back to the same streams.
func FuzzOutcome(f *testing.F) {
	f.Add([]byte("x"), []byte(`,"attestation":null}`), "r")
	f.Add([]byte{0xff, '\n'}, []byte("\u2028"), "\xff")
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, reason string) {
		o := palyra.Outcome{Reason: palyra.Clip(reason, 100)}
		o.SetStreams(stdout, stderr)
		b, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(b, '\n') {
			t.Fatalf("more than one line: %q", b)
		}
		var back palyra.Outcome
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if back.Stdout != o.Stdout || back.StdoutB64 != o.StdoutB64 || back.Stderr != o.Stderr || back.Reason != o.Reason {
			t.Fatalf("%q came back as %+v", b, back)
		}
		body, err := o.Body()
		if err != nil || !strings.HasPrefix(string(b), string(body)) || len(body)+len(`,"attestation":null}`) != len(b) {
			t.Fatalf("body %q of %q, %v", body, b, err)
		}
	})
}
