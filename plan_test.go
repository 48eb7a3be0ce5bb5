package palyra_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"palyra"
)

// Anything bound that changes must change the digest, in every field, list
// item and order; otherwise an approver could see one thing and another runs.
func TestEveryBoundFieldChangesThePlanDigest(t *testing.T) {
	everyFieldCounts(t, palyra.Plan.Digest)
}

func TestDetailIsNotBound(t *testing.T) {
	p := filled[palyra.Plan](t)
	before, err := p.Digest()
	if err != nil {
		t.Fatal(err)
	}
	p.Detail = palyra.Detail{Summary: "s", Diff: "d", Notes: []string{"n"}}
	after, err := p.Digest()
	if err != nil || after != before {
		t.Errorf("detail changed the digest to %s, %v", after, err)
	}
}

// Two spellings of the same arguments are the same plan.
func TestArgumentSpellingIsNotBound(t *testing.T) {
	a := palyra.Plan{Tool: "t", Arguments: json.RawMessage(`{"a":1,"b":"é"}`)}
	b := palyra.Plan{Tool: "t", Arguments: json.RawMessage("{ \"b\":\"\\u00e9\",\n \"a\":1.0 }")}
	da, _ := a.Digest()
	db, err := b.Digest()
	if da != db || err != nil {
		t.Errorf("%s and %s, %v", da, db, err)
	}
}

func TestPlanDigestRefuses(t *testing.T) {
	for name, p := range map[string]palyra.Plan{
		"malformed arguments":   {Arguments: json.RawMessage(`{`)},
		"a repeated key":        {Arguments: json.RawMessage(`{"a":1,"a":2}`)},
		"a lone surrogate":      {Arguments: json.RawMessage(`"\ud800"`)},
		"arguments not UTF-8":   {Arguments: json.RawMessage("\"\xff\"")},
		"a directory not UTF-8": {Cwd: "/w/\xff"},
		"a path not UTF-8":      {Writes: []string{"a\xfe"}},
		"a program not UTF-8":   {Executable: palyra.Executable{Path: "/bin/\xff"}},
		"a workspace not UTF-8": {Workspace: palyra.WorkspaceRef{Path: "/\xff"}},
		"an argument not UTF-8": {Argv: []string{"x", "\xc3"}},
		"a variable not UTF-8":  {Env: []palyra.EnvVar{{Name: "A", Value: "\xc3"}}},
		"arguments too deep to see": {Arguments: json.RawMessage(string(bytes.Repeat([]byte("["), 100)) +
			string(bytes.Repeat([]byte("]"), 100)))},
	} {
		if d, err := p.Digest(); err == nil {
			t.Errorf("%s: digest %s", name, d)
		}
	}
}

// The vectors are published in docs/formats.md. A change here breaks every
// approval and attestation ever made.
func TestPlanVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/plans.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name   string
		Plan   json.RawMessage
		Digest palyra.Digest
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 4 {
		t.Errorf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		var p palyra.Plan
		dec := json.NewDecoder(bytes.NewReader(v.Plan))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&p); err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if got, err := p.Digest(); err != nil || got != v.Digest {
			t.Errorf("%s: %s, %v; published as %s", v.Name, got, err, v.Digest)
		}
	}
}

func TestPlanResource(t *testing.T) {
	p := palyra.Plan{Tool: "palyra.fs.write"}
	if p.Resource() != "palyra.fs.write" {
		t.Errorf("got %s", p.Resource())
	}
	p.Executable.Path = "/usr/bin/git"
	if p.Resource() != "/usr/bin/git" {
		t.Errorf("got %s", p.Resource())
	}
}

func TestPlanStringHidesArguments(t *testing.T) {
	p := palyra.Plan{
		Tool: "palyra.process.run", Arguments: json.RawMessage(`{"token":"hunter2hunter2"}`),
		Argv: []string{"curl", "hunter2hunter2"}, Executable: palyra.Executable{Path: "/usr/bin/curl"},
	}
	if got := p.String(); got != "palyra.process.run /usr/bin/curl" {
		t.Errorf("got %q", got)
	}
	if got := (palyra.Plan{Tool: "palyra.echo"}).String(); got != "palyra.echo" {
		t.Errorf("got %q", got)
	}
}

// The other things that people and signatures stand on are bound as wholly.
func TestEveryFieldOfThePromptCounts(t *testing.T)   { everyFieldCounts(t, palyra.Prompt.Digest) }
func TestEveryFieldOfTheSnapshotCounts(t *testing.T) { everyFieldCounts(t, palyra.Snapshot.Digest) }

func TestEveryFieldOfThePredicateCounts(t *testing.T) {
	everyFieldCounts(t, func(p palyra.Predicate) (palyra.Digest, error) {
		d, err := p.Execution()
		if err != nil {
			return "", err
		}
		// the digest stands in the predicate and leaves itself out, so it is
		// added here for the walk to see a change of it
		return palyra.SumBytes([]byte(d + p.ExecutionSHA256)), nil
	})
}

func TestExecutionLeavesItselfOut(t *testing.T) {
	p := filled[palyra.Predicate](t)
	with, err := p.Execution()
	if err != nil {
		t.Fatal(err)
	}
	p.ExecutionSHA256 = with
	again, err := p.Execution()
	if err != nil || again != with {
		t.Errorf("%s then %s, %v", with, again, err)
	}
}

func TestEveryFieldOfTheIntentCounts(t *testing.T) {
	everyFieldCounts(t, func(i palyra.Intent) (palyra.Digest, error) {
		b, err := i.Bytes()
		return palyra.SumBytes(b), err
	})
}

func TestIntentBytesNameTheirDomain(t *testing.T) {
	b, err := palyra.Intent{Method: "m"}.Bytes()
	if err != nil || !bytes.HasPrefix(b, []byte("palyra/intent/v1\x00m")) {
		t.Errorf("%q, %v", b, err)
	}
}

func TestIntentBody(t *testing.T) {
	a, err := palyra.IntentBody(map[string]any{"approval_id": "x", "answer": "allow"})
	if err != nil || !a.Valid() {
		t.Fatalf("%s, %v", a, err)
	}
	for _, other := range []map[string]any{
		nil, {}, {"approval_id": "x"}, {"approval_id": "x", "answer": "deny"}, {"approval_id": "x", "answer": "allow", "uses": 1},
	} {
		if b, err := palyra.IntentBody(other); err != nil || b == a {
			t.Errorf("%v: %s, %v", other, b, err)
		}
	}
}

// A name that is no text cannot be in a plan; who proposed it is told so, with what
// to do, and not of an internal error.
func TestAPlanWithANameThatIsNoText(t *testing.T) {
	for name, p := range map[string]palyra.Plan{
		"cwd":  {Cwd: "d\xff"},
		"link": {Links: []palyra.Link{{Path: "l.sh", Target: "b\xff.sh"}}},
	} {
		_, err := p.Digest()
		if e := palyra.AsError(err); e == nil || e.Code != palyra.Invalid || e.Reason != palyra.ReasonMalformedInput || e.Remedy == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
