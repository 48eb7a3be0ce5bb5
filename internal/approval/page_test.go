package approval

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"palyra"
)

// page is a fetch with further arguments.
func page(t testing.TB, host, path string, more map[string]any, options ...callOption) *palyra.Call {
	t.Helper()
	c := call(t, "x")
	args := map[string]any{"url": "https://" + host + path}
	for k, v := range more {
		args[k] = v
	}
	raw, _ := json.Marshal(args)
	c.Plan = palyra.Plan{
		Tool: palyra.ToolFetch, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Arguments: raw, Egress: []string{host + ":443"},
		Capabilities: []palyra.Capability{palyra.Network},
	}
	for _, o := range options {
		o(c)
	}
	var err error
	if c.Digest, err = c.Plan.Digest(); err != nil {
		t.Fatal(err)
	}
	return c
}

// The pages of a host are one answer for a session, and nothing but pages are.
func TestPagesOfAHostAreOneAnswer(t *testing.T) {
	w := newWorld(t)
	first := w.ask(page(t, "a.example", "/one", nil))
	settled := w.decide(first, palyra.AnswerAllow, scoped(palyra.ScopeTimeboxed), ttl(8*time.Hour), widened(palyra.WidenHost))
	for what, c := range map[string]*palyra.Call{
		"the same":              page(t, "a.example", "/one", nil),
		"another page":          page(t, "a.example", "/two?q=1", nil),
		"its head":              page(t, "a.example", "/two", map[string]any{"method": "HEAD", "max_bytes": 1}),
		"after content came in": page(t, "a.example", "/three", nil, labelled(palyra.LabelUntrusted), risky),
	} {
		if d, ok := w.covered(c); !ok || d.Lease != settled.Decision.Lease || w.grant(c, d.Lease) != nil {
			t.Errorf("%s: not covered", what)
		}
	}
	for what, c := range map[string]*palyra.Call{
		"sending":               page(t, "a.example", "/one", map[string]any{"method": "POST", "body": "x"}),
		"another method":        page(t, "a.example", "/one", map[string]any{"method": "DELETE"}),
		"a body":                page(t, "a.example", "/one", map[string]any{"body": "x"}),
		"headers":               page(t, "a.example", "/one", map[string]any{"headers": map[string]string{"x-y": "secret"}}),
		"what nobody knows":     page(t, "a.example", "/one", map[string]any{"later": 1}),
		"another host":          page(t, "b.example", "/one", nil),
		"a redirect elsewhere":  page(t, "a.example", "/r", nil, func(c *palyra.Call) { c.Plan.Egress = append(c.Plan.Egress, "b.example:443") }),
		"another session":       page(t, "a.example", "/one", nil, inSession(session2)),
		"another agent":         page(t, "a.example", "/one", nil, by("agent:other")),
		"after a secret":        page(t, "a.example", "/one", nil, labelled(palyra.LabelSecret)),
		"a fresh answer":        page(t, "a.example", "/one", nil, withNeed(palyra.Need{Votes: 1, Fresh: true})),
		"a program that goes":   install(t, []string{"a.example:443"}),
		"the agent's own tools": page(t, "a.example", "/one", nil, func(c *palyra.Call) { c.Plan = c.Plan.Unsandboxed() }),
	} {
		if _, ok := w.covered(c); ok {
			t.Errorf("%s: covered", what)
		}
	}
	for what, c := range map[string]*palyra.Call{
		"an address":     page(t, "192.0.2.1", "/", nil),
		"a suffix":       page(t, "*.example", "/", nil),
		"sending":        page(t, "c.example", "/", map[string]any{"method": "PUT"}),
		"after a secret": page(t, "d.example", "/", nil, labelled(palyra.LabelSecret)),
	} {
		if a := w.ask(c); offered(a.Prompt.Options, palyra.WidenHost) != "" {
			t.Errorf("%s: pages are offered", what)
		}
	}
}

// The answers that a question offers say what they would have saved, and those that save most stand first, but for the
// one for this plan alone.
func TestOfferedAnswersAreRanked(t *testing.T) {
	w := newWorld(t, withGroups(t, "registry.example"))
	yes := func(c *palyra.Call) { w.decide(w.ask(c), palyra.AnswerAllow, scoped(palyra.ScopeOnce)) }
	saves := func(c *palyra.Call) map[string]int64 {
		t.Helper()
		a, joined, err := w.desk.Prepare(t.Context(), c)
		if err != nil || joined || a.Prompt.Options[0].Name != palyra.WidenExact {
			t.Fatalf("%v %+v", err, a.Prompt.Options)
		}
		out := map[string]int64{}
		for i, o := range a.Prompt.Options {
			out[o.Name] = o.Saves
			if i > 1 && o.Saves > a.Prompt.Options[i-1].Saves {
				t.Errorf("%s saves more and stands behind: %+v", o.Name, a.Prompt.Options)
			}
		}
		return out
	}
	group := groupWiden(w.cfg.Groups[1])
	if got := saves(install(t, []string{indexHost})); got[group] != 0 || got[palyra.WidenExact] != 0 {
		t.Errorf("without a past: %v", got)
	}
	for i, host := range []string{indexHost, filesHost, indexHost} { // two sessions, within 8 hours
		yes(install(t, []string{host}, inSession([]palyra.SessionID{session1, session1, session2}[i])))
		w.pass(time.Hour)
	}
	if got := saves(install(t, []string{indexHost})); got[group] != 2 || got[palyra.WidenExact] != 0 {
		t.Errorf("after three in two sessions: %v", got)
	}
	w.pass(9 * time.Hour)
	yes(install(t, []string{indexHost}))
	if got := saves(install(t, []string{indexHost})); got[group] != 2 {
		t.Errorf("an answer that had run out saved one more: %v", got)
	}
	yes(install(t, []string{indexHost}))
	if got := saves(install(t, []string{indexHost})); got[group] != 3 || got[palyra.WidenExact] != 1 {
		t.Errorf("after the same twice: %v", got)
	}
	w.decide(w.ask(install(t, []string{filesHost})), palyra.AnswerDeny) // a no is not saved
	yes(install(t, []string{filesHost}, by("agent:other")))
	yes(install(t, []string{npmHost}))
	if got := saves(install(t, []string{indexHost})); got[group] != 3 {
		t.Errorf("what was denied, or of others: %v", got)
	}
	for i := range 4 {
		yes(call(t, fmt.Sprintf("src/%d.txt", i)))
		yes(call(t, fmt.Sprintf("doc/%d.txt", i)))
	}
	got := saves(call(t, "src/new.txt"))
	if got[palyra.WidenWorkspace] != 7 || got[palyra.WidenPathRoot] != 3 || got[palyra.WidenExact] != 0 {
		t.Errorf("edits: %v", got)
	}
	if a, _, err := w.desk.Prepare(t.Context(), call(t, "src/new.txt")); err != nil || a.Prompt.Options[1].Name != palyra.WidenWorkspace {
		t.Errorf("%v %+v", err, a.Prompt.Options)
	}
}
