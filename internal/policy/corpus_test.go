package policy

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	exptypes "github.com/cedar-policy/cedar-go/x/exp/types"
	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/policy/corpustest"
)

// corpusSample is how much of the corpus a test run looks at: one case of so
// many. With PALYRA_CORPUS=full ('make soak') it is all of it.
const corpusSample = 20

// tally counts what the corpus held.
type tally struct{ requests, checked, allowed, failed, turned int }

// The corpus of the Cedar library, judged as a request is judged: bundles are
// compiled, policies come out of the index in their two kinds, errors deny. The
// answers are the Rust engine's but for our one rule: where it allows although
// a policy failed, we deny.
func TestCorpus(t *testing.T) {
	of := uint64(corpusSample)
	if os.Getenv("PALYRA_CORPUS") == "full" {
		of = 1
	}
	var n tally
	cases := corpustest.Corpus(t, of, func(c corpustest.Case) {
		n.judge(t, c, n.bundle(t, c))
		c = permitted(t, c)
		n.judge(t, c, uncheckedOver(t, c.Schema, named(t, c.Policies)))
	})
	t.Logf("%d cases, %d of them well typed, %d requests: %d allowed; %d with a policy that failed, of which Cedar allows %d and we deny them",
		cases, n.checked, n.requests, n.allowed, n.failed, n.turned)
	if n.checked == 0 || n.allowed == 0 || n.failed == 0 || n.turned == 0 {
		t.Error("the sample shows nothing of some kind")
	}
}

// permitted is the case with one more policy, which permits everything. Nearly
// all of the corpus has one policy to a case, so that it holds no allow
// beside an error; this one does wherever a policy fails, and its answers
// follow from those of the corpus.
func permitted(t *testing.T, c corpustest.Case) corpustest.Case {
	t.Helper()
	places, problem := scan(c.Policies)
	if problem != nil {
		t.Fatal(problem)
	}
	c.Policies += "\npermit (principal, action, resource);"
	c.Requests = slices.Clone(c.Requests)
	for i, r := range c.Requests {
		if r.Decision == cedar.Allow || len(r.Reasons) == 0 { // nothing forbids it
			c.Requests[i].Decision = cedar.Allow
			c.Requests[i].Reasons = append(slices.Clone(r.Reasons), cedar.PolicyID(fmt.Sprintf("policy%d", len(places))))
		}
	}
	return c
}

func (n *tally) judge(t *testing.T, c corpustest.Case, b *Bundle) {
	t.Helper()
	w := corpusWorld(t, c, b)
	for _, r := range c.Requests {
		n.requests++
		one := corpusCall(b, w, r)
		if d := n.differs(one.judge(), r); d != "" {
			t.Errorf("%s %s: %s", c.Name, r.Description, d)
		}
		said := one.newQuestion(one.pairs[0]).ask(answer{})
		if d := cmp.Diff(words(r.Reasons), sortedIDs(said.decisive())); d != "" {
			t.Errorf("%s %s: reasons (-corpus +ours)\n%s", c.Name, r.Description, d)
		}
	}
}

// differs compares a verdict with the corpus.
func (n *tally) differs(v palyra.Verdict, r corpustest.Request) string {
	want, by := palyra.Deny, words(r.Reasons)
	switch {
	case len(r.Errors) > 0:
		n.failed++
		by = words(r.Errors)
		if r.Decision == cedar.Allow {
			n.turned++ // our rule
		}
	case r.Decision == cedar.Allow:
		n.allowed++
		want = palyra.Allow
	}
	got := slices.Sorted(slices.Values(v.Pairs[0].Policies))
	if v.Effect != want || len(v.Errors) != len(r.Errors) || !slices.Equal(got, by) {
		return fmt.Sprintf("%s by %q with errors %q, corpus: %v by %q, failed %q", v.Effect, got, v.Errors, r.Decision, r.Reasons, r.Errors)
	}
	return ""
}

// decisive is what Cedar would name as reasons: permits only where nothing
// forbids.
func (r reply) decisive() rules {
	if len(r.forbids) > 0 {
		return r.forbids
	}
	return r.permits
}

func words(ids []cedar.PolicyID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	slices.Sort(out)
	return out
}

// bundle compiles a case. Ours and the Rust engine's checker must agree on what
// is well typed; policies that are not are judged all the same, unchecked.
func (n *tally) bundle(t *testing.T, c corpustest.Case) *Bundle {
	t.Helper()
	text := named(t, c.Policies)
	b, err := Compile(map[string]string{schemaFile: c.Schema, "corpus.cedar": text})
	empty := err != nil && text == c.Policies // which we refuse and Cedar does not
	if (err == nil) != c.Valid && !empty {
		t.Errorf("%s: well typed: %t, we say %v", c.Name, c.Valid, err)
	}
	if err != nil {
		return uncheckedOver(t, c.Schema, text)
	}
	n.checked++
	return b
}

// named gives the policies of a text the names that they go by in the corpus.
func named(t *testing.T, text string) string {
	t.Helper()
	places, problem := scan(text)
	if problem != nil {
		t.Fatalf("%v in\n%s", problem, text)
	}
	for i, s := range slices.Backward(places) {
		text = fmt.Sprintf("%s@id(\"policy%d\") %s", text[:s.offset], i, text[s.offset:])
	}
	return text
}

func corpusWorld(t *testing.T, c corpustest.Case, b *Bundle) world {
	t.Helper()
	model, err := resolve(c.Schema)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	var m exptypes.EntityMap
	if err := m.UnmarshalJSONWithSchema(c.Entities, model); err != nil {
		t.Fatalf("%s: entities: %v", c.Name, err)
	}
	w := world{actions: b.actions}
	for _, e := range types.EntityMap(m) {
		w.own = append(w.own, e)
	}
	return w
}

// corpusCall is a request as judge takes it. The approval is one without a vote,
// so that no ladder is tried, and the context is the request's own, to
// which nothing of ours is added.
func corpusCall(b *Bundle, w world, r corpustest.Request) *judgement {
	return &judgement{
		state: &state{bundle: wholly(b)}, request: palyra.Request{Approval: &palyra.ApprovalFacts{}},
		principal: r.Principal, world: w, pairs: []pair{{r.Action, r.Resource}},
		views: map[view]cedar.Record{{everything, answer{}}: r.Context},
	}
}
