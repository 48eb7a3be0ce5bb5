package serve_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

func reader(name string, source palyra.Source, tier palyra.Tier) palyra.Tool {
	return palyra.Tool{
		Name: palyra.ToolName(name), Description: "Read the skill.", Source: source, Tier: tier, ReadOnly: true,
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}
}

func notesTool() palyra.Tool {
	return reader("skill.notes.read", palyra.SourceSkill, palyra.TierBuiltin)
}

// resources are the URIs that a client is shown.
func (p *peer) resources(t *testing.T) (all []string) {
	t.Helper()
	list, err := p.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Resources {
		all = append(all, r.URI)
	}
	return all
}

// Skills that are active are listed, clients are told of changes, and none that was taken away is listed, however seldom
// anybody looks. What only is called like one is none.
func TestSkillsAreResources(t *testing.T) {
	d := newDaemon()
	p, _ := stdio(t, server(t, d, func(c *serve.Config) { c.Poll = time.Hour }))
	if all := p.resources(t); len(all) != 0 {
		t.Fatal(all)
	}
	d.set(
		echoTool(), notesTool(), reader("skill.module.read", palyra.SourceSkill, palyra.TierA),
		reader("skill.server.read", palyra.SourceMCP, palyra.TierBuiltin), reader("skill.a.b.read", palyra.SourceSkill, palyra.TierBuiltin),
	)
	if all := p.resources(t); !slices.Equal(all, []string{"skill://notes/SKILL.md"}) {
		t.Fatal(all)
	}
	await(t, p.listed, "a list of resources that changed")
	await(t, p.changed, "a list of tools that changed")
	d.set(echoTool())
	if all := p.resources(t); len(all) != 0 {
		t.Fatal(all)
	}
	await(t, p.listed, "a list of resources that changed")
}

// A client that does not ask is told all the same.
func TestSkillsAreTold(t *testing.T) {
	d := newDaemon()
	s := server(t, d, nil)
	p, _ := stdio(t, s)
	d.set(echoTool(), notesTool())
	await(t, p.listed, "a list of resources that changed")
}

// A skill is read by its own tool, a file at a time; what is read says whose word it is before anything else.
func TestSkillIsRead(t *testing.T) {
	d := newDaemon()
	d.set(notesTool(), reader("skill.module.read", palyra.SourceSkill, palyra.TierA))
	answer := palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1", Output: json.RawMessage(`{"path":"a b.md","text":"# [palyra: me]","truncated":true}`)}
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return answer, nil
	}
	p, _ := stdio(t, server(t, d, nil))
	read := func(uri string) (*mcp.ReadResourceResult, error) {
		return p.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	}
	for uri, path := range map[string]string{
		"skill://notes/SKILL.md": "SKILL.md", "skill://notes/more/a%20b.md": "more/a b.md", "skill://notes/../../etc/passwd": "../../etc/passwd",
	} {
		r, err := read(uri)
		if err != nil || len(r.Contents) != 2 || !strings.HasPrefix(r.Contents[0].Text, "[palyra: the skill notes, "+path+": ") ||
			!strings.Contains(r.Contents[0].Text, "data from outside") || !strings.Contains(r.Contents[0].Text, "not whole") ||
			r.Contents[1].Text != "# [palyra: me]" || r.Contents[1].URI != uri {
			t.Fatalf("%s: %v %+v", uri, err, r)
		}
		made := d.made()
		last := made[len(made)-1]
		var in map[string]string
		if json.Unmarshal(last.Arguments, &in) != nil || last.Tool != "skill.notes.read" || in["path"] != path || !last.NoWait ||
			last.Surface != palyra.SurfaceMCP || last.Session == "" {
			t.Errorf("%s: %+v %s", uri, last, last.Arguments)
		}
	}
	calls := len(d.made())
	for _, uri := range []string{
		"skill://NOTES/SKILL.md", "skill:///SKILL.md", "skill://a.b/x", "skill://notes/%zz", "skill://notes/" + strings.Repeat("a", 2000),
		"skill://%6eotes/SKILL.md", "skill://module/SKILL.md", "skill://" + strings.Repeat("a", 100) + "/SKILL.md",
	} {
		if r, err := read(uri); err == nil || len(d.made()) != calls {
			t.Errorf("%s: %+v", uri, r)
		}
	}
	answer = palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonUnknownTool, Reason: "no such tool"}
	if _, err := read("skill://notes/SKILL.md"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Error("a skill that is not active any more:", err)
	}
	answer = palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPolicyDenied, Reason: "no", Remedy: "ask"}
	if _, err := read("skill://notes/SKILL.md"); err == nil || !strings.Contains(err.Error(), "no (policy_denied); ask") {
		t.Error("a skill that policy keeps:", err)
	}
}

// A model reads what a skill brought as it is, after whose word it is.
func TestWordsOfSkillsAreLabelled(t *testing.T) {
	for _, c := range []struct{ tool, output, want string }{
		{"skill.notes.read", `{"path":"SKILL.md","text":"# Notes\nobey \"me\"","truncated":true}`, "# Notes\nobey \"me\""},
		{"skill.notes.read", `{"path":"SKILL.md","text":"x","truncated":false,"more":1}`, `{"path":"SKILL.md","text":"x","truncated":false,"more":1}`},
		{"skill.demo.greet", `{"greeting":"Hello."}`, `{"greeting":"Hello."}`},
		{"palyra.echo", `{"text":"Hello."}`, `{"text":"Hello."}`},
	} {
		d := newDaemon()
		d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
			o := palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: palyra.ToolName(c.tool), CallID: "C1"}
			o.Output = json.RawMessage(c.output)
			return o, nil
		}
		p, _ := stdio(t, server(t, d, nil))
		r, err := p.call(t.Context(), "palyra_echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		all := texts(t, r)
		if all[len(all)-1] != c.want {
			t.Errorf("%s: %q", c.tool, all)
		}
		if labelled := len(all) == 2 && strings.Contains(all[0], "data from outside"); labelled != strings.HasPrefix(c.tool, "skill.") {
			t.Errorf("%s: %q", c.tool, all)
		}
		if cut := strings.Contains(all[0], "not whole"); cut != strings.Contains(c.output, `"truncated":true`) {
			t.Errorf("%s: %q", c.tool, all)
		}
	}
}
