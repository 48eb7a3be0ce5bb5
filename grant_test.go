package palyra_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"palyra"
)

// judgedCall is a call that policy allowed by itself.
func judgedCall(t *testing.T) *palyra.Call {
	t.Helper()
	c := &palyra.Call{
		ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		Plan: palyra.Plan{
			Tool: "palyra.fs.write", Arguments: json.RawMessage(`{"path":"a"}`), Writes: []string{"a"},
			Tier: palyra.TierBuiltin,
		},
		Verdict: palyra.Verdict{Effect: palyra.Allow},
	}
	var err error
	if c.Digest, err = c.Plan.Digest(); err != nil {
		t.Fatal(err)
	}
	return c
}

// answeredCall is one that policy asked about and a person allowed.
func answeredCall(t *testing.T) *palyra.Call {
	t.Helper()
	c := judgedCall(t)
	c.Verdict.Effect = palyra.Ask
	c.Decision = palyra.Decision{Approval: "A1", Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, Lease: "L1", Digest: c.Digest}
	return c
}

func TestNewGrant(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]*palyra.Call{"allowed": judgedCall(t), "answered": answeredCall(t)} {
		g, err := palyra.NewGrant("G1", c, now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !g.Valid() || g.ID() != "G1" || g.Call() != c.ID || g.Digest() != c.Digest ||
			!reflect.DeepEqual(g.Plan(), c.Plan) || !reflect.DeepEqual(g.Decision(), c.Decision) {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// A lease that was given for one plan may cover another by its terms; the desk
// answers for that, so the digest shown need not be this plan's.
func TestNewGrantByALease(t *testing.T) {
	c := answeredCall(t)
	c.Decision.Reused, c.Decision.Digest = true, palyra.SumBytes([]byte("another plan"))
	if _, err := palyra.NewGrant("G1", c, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestNewGrantRefuses(t *testing.T) {
	other := palyra.SumBytes([]byte("another plan"))
	cases := map[string]func(*palyra.Call){
		"no call id":                     func(c *palyra.Call) { c.ID = "" },
		"no digest":                      func(c *palyra.Call) { c.Digest = "" },
		"another digest":                 func(c *palyra.Call) { c.Digest = other },
		"the plan changed after":         func(c *palyra.Call) { c.Plan.Writes = []string{"b"} },
		"the tier changed after":         func(c *palyra.Call) { c.Plan.Tier = palyra.TierC },
		"a plan without a digest":        func(c *palyra.Call) { c.Plan.Arguments = json.RawMessage(`{`) },
		"policy denies":                  func(c *palyra.Call) { c.Verdict.Effect = palyra.Deny },
		"policy said nothing":            func(c *palyra.Call) { c.Verdict = palyra.Verdict{} },
		"a policy failed":                func(c *palyra.Call) { c.Verdict.Errors = []string{"x"} },
		"a verdict from nowhere":         func(c *palyra.Call) { c.Verdict.Effect = palyra.Allow + 1 },
		"a verdict below deny":           func(c *palyra.Call) { c.Verdict.Effect = palyra.Deny - 1 },
		"asked, nobody answered":         func(c *palyra.Call) { c.Decision = palyra.Decision{} },
		"asked, denied":                  func(c *palyra.Call) { c.Decision.Answer = palyra.AnswerDeny },
		"asked, timed out":               func(c *palyra.Call) { c.Decision.Answer = palyra.AnswerTimeout },
		"asked, failed":                  func(c *palyra.Call) { c.Decision.Answer = palyra.AnswerError },
		"asked, an answer from nowhere":  func(c *palyra.Call) { c.Decision.Answer = "Allow" },
		"allowed without a lease":        func(c *palyra.Call) { c.Decision.Lease = "" },
		"the approver saw another plan":  func(c *palyra.Call) { c.Decision.Digest = other },
		"the approver saw no plan":       func(c *palyra.Call) { c.Decision.Digest = "" },
		"a lease, but no answer with it": func(c *palyra.Call) { c.Decision.Reused, c.Decision.Answer = true, "" },
	}
	for name, spoil := range cases {
		c := answeredCall(t)
		spoil(c)
		if g, err := palyra.NewGrant("G1", c, time.Now()); err == nil || g.Valid() {
			t.Errorf("%s: granted", name)
		}
	}
	if g, err := palyra.NewGrant("", answeredCall(t), time.Now()); err == nil || g.Valid() {
		t.Error("no grant id: granted")
	}
}

func TestTheZeroGrantIsNotValid(t *testing.T) {
	if (palyra.Grant{}).Valid() {
		t.Error("a grant that nobody made is valid")
	}
	typ := reflect.TypeFor[palyra.Grant]()
	for i := range typ.NumField() {
		if typ.Field(i).IsExported() {
			t.Errorf("anyone can set Grant.%s", typ.Field(i).Name)
		}
	}
	var g palyra.Grant
	if err := fromJSON(`{"id":"G1","digest":"sha256:x","ID":"G1"}`, &g); err == nil && g.Valid() {
		t.Error("a grant can be made from JSON")
	}
}

func fromJSON(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// The call goes on changing after the grant was made; what was granted must not
// change with it.
func TestAGrantKeepsItsPlan(t *testing.T) {
	c := judgedCall(t)
	c.Plan.Argv = []string{"git", "status"}
	c.Digest, _ = c.Plan.Digest()
	g, err := palyra.NewGrant("G1", c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.Plan.Argv[1] = "push"
	c.Plan.Writes[0] = "../elsewhere"
	c.Plan.Arguments[2] = 'X'
	if d, err := g.Plan().Digest(); err != nil || d != g.Digest() {
		t.Errorf("the granted plan now has digest %s (%v), granted was %s", d, err, g.Digest())
	}
}
