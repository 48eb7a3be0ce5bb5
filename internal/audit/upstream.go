package audit

import (
	"encoding/json"

	"palyra"
	"palyra/internal/store"
)

// server is what the journal says of an MCP server behind the gate.
type server struct {
	palyra.UpstreamAdded
	seq  int64
	pins map[string]palyra.UpstreamPin // tools as they were approved last
}

// hearServer takes in a line about an MCP server.
func (a *Audit) hearServer(seq int64, e palyra.Event) {
	switch e := e.(type) {
	case *palyra.UpstreamAdded:
		a.servers[e.Name] = &server{UpstreamAdded: *e, seq: seq, pins: map[string]palyra.UpstreamPin{}}
	case *palyra.UpstreamRemoved:
		delete(a.servers, e.Name)
	case *palyra.UpstreamApproved:
		if s := a.servers[e.Name]; s != nil {
			for _, p := range e.Tools {
				s.pins[p.Name] = p
			}
		}
	}
}

// holdServers holds definitions, and that no tool counts as approved that was not.
func (a *Audit) holdServers(tx *store.Tx) (f *palyra.Finding, err error) {
	want := map[string]row{}
	for name, s := range a.servers {
		definition, err := json.Marshal(s.Definition)
		if err != nil {
			return nil, err
		}
		want["text:"+name] = row{seq: s.seq, values: []any{string(definition), str(s.Digest), str(s.By)}}
	}
	f, err = table{"mcp_upstreams", "name", []string{"definition", "digest", "added_by"}}.hold(tx, want)
	if f != nil || err != nil {
		return f, err
	}
	err = tx.Each(`SELECT upstream, name, tool FROM mcp_tools`, nil, func(scan func(...any) error) error {
		var name, tool, text string
		if err := scan(&name, &tool, &text); err != nil {
			return err
		}
		var t palyra.UpstreamTool
		s := a.servers[name]
		bad := s == nil || json.Unmarshal([]byte(text), &t) != nil || t.Name != tool
		if !bad {
			pin, approved := s.pins[tool]
			bad = approved != (t.Pinned != "") || t.Pinned != pin.Digest || t.ReadOnly != pin.ReadOnly ||
				t.State == palyra.UpstreamToolActive && t.Digest != t.Pinned
		}
		if bad {
			f = finding(0, "tool %.80q of server %.80q is not as it was approved", tool, name)
			return errFound
		}
		return nil
	})
	return f, unless(f, err)
}
