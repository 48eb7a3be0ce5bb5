package audit

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/canon"
)

// What an agent is told of a tool is what was approved; a tool that was approved is
// there; lines of earlier versions, which have no digest of the text, bind none.
func TestServers(t *testing.T) {
	b := newBench(t)
	definition := palyra.UpstreamDefinition{Transport: palyra.TransportStdio, Command: []string{"server"}}
	raw, err := json.Marshal(definition)
	b.must(err)
	text, err := canon.Digest("upstream-text/v1", map[string]any{
		"title": "", "description": "Adds.",
		"input_schema": map[string]any{"type": "object"}, "claims": []string{},
	})
	b.must(err)
	for name, sum := range map[string]palyra.Digest{"new": palyra.Digest(text), "old": ""} {
		pin := palyra.UpstreamPin{Name: "add", Digest: "sha256:1", Text: sum}
		b.say(palyra.UpstreamAdded{Name: name, Definition: definition, Digest: "sha256:d", Tools: []palyra.UpstreamPin{pin}, By: "user:alice"},
			palyra.UpstreamApproved{Name: name, Tools: []palyra.UpstreamPin{pin}, By: "user:alice"},
			palyra.UpstreamQuarantined{Name: name, Tool: "wait", Digest: "sha256:2", Text: sum})
		b.insert("mcp_upstreams", "name", name, "definition", string(raw), "digest", "sha256:d", "server", "", "added_by", "user:alice",
			"added_at", 1)
		for tool, rest := range map[string]string{
			"add":  `"state":"active","digest":"sha256:1","pinned_digest":"sha256:1"`,
			"wait": `"state":"quarantined","digest":"sha256:2"`,
		} {
			b.insert("mcp_tools", "upstream", name, "name", tool, "tool", `{"name":"`+tool+
				`","description":"Adds.","input_schema":{"type":"object"},`+rest+`}`)
		}
	}
	if why := b.found(); why != "" {
		t.Fatal(why)
	}
	b.everyColumn("mcp_upstreams", "name", "definition", "digest", "added_by")
	for _, tool := range []string{"add", "wait"} {
		b.noticed("mcp_tools", "a text", `UPDATE mcp_tools SET tool = replace(tool, 'Adds.', 'Adds!') WHERE upstream = 'new' AND name = '`+tool+
			`'`)
		b.noticed("mcp_tools", "a schema", `UPDATE mcp_tools SET tool = replace(tool, 'object', 'array') WHERE upstream = 'new' AND name = '`+
			tool+`'`)
	}
	b.noticed("mcp_tools", "approved by nobody",
		`UPDATE mcp_tools SET tool = replace(tool, '"state":"quarantined"', '"state":"active"') WHERE name = 'wait'`)
	b.noticed("mcp_tools", "a row removed", `DELETE FROM mcp_tools WHERE upstream = 'old' AND name = 'add'`)
	b.exec(`UPDATE mcp_tools SET tool = replace(tool, 'Adds.', 'Adds!') WHERE upstream = 'old'`)
	if why := b.found(); strings.Contains(why, "add") {
		t.Errorf("an earlier line: %s", why)
	}
}
