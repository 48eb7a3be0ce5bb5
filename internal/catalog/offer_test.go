package catalog

import (
	"encoding/json"
	"testing"

	"palyra"
)

func offered(name, schema string) palyra.Tool {
	return palyra.Tool{Name: palyra.ToolName(name), InputSchema: json.RawMessage(schema), MaxInput: 100}
}

func TestOffer(t *testing.T) {
	const object = `{"type":"object"}`
	c, err := New(Config{Tools: []palyra.Tool{offered("palyra.echo", object)}, MaxCalls: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Offer("a", []palyra.Tool{offered("mcp.a.getIt", object), offered("mcp.a.two", object)}); err != nil {
		t.Fatal(err)
	}
	if err := c.Offer("a", []palyra.Tool{offered("mcp.a.getIt", object)}); err != nil {
		t.Fatal(err)
	}
	if got := c.List(); len(got) != 2 || got[0].Name != "mcp.a.getIt" {
		t.Errorf("%v", got)
	}
	if _, err := c.Admit(t.Context(), palyra.Proposal{Tool: "mcp.a.getIt", Arguments: []byte(`{}`)}); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string][]palyra.Tool{
		"a built-in":     {offered("palyra.echo", object)},
		"another's":      {offered("mcp.a.getIt", object)},
		"twice":          {offered("mcp.b.x", object), offered("mcp.b.x", object)},
		"no schema":      {offered("mcp.b.x", `{"type":"array"}`)},
		"no name":        {offered("Mcp.b.x", object)},
		"half of a list": {offered("mcp.b.good", object), offered("mcp.b.bad", `7`)},
	} {
		if err := c.Offer("b", bad); err == nil || len(c.List()) != 2 {
			t.Errorf("%s: %v, %d tools", name, err, len(c.List()))
		}
	}
	if c.Usable(offered("mcp.b.x", `7`)) == nil || c.Usable(offered("mcp.b.x", object)) != nil {
		t.Error("usable")
	}
	if err := c.Offer("a", nil); err != nil || len(c.List()) != 1 {
		t.Errorf("%v, %d tools", err, len(c.List()))
	}
}
