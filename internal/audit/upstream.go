package audit

import (
	"encoding/json"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/store"
)

// server is what the journal says of an MCP server behind the gate.
type server struct {
	palyra.UpstreamAdded
	seq  int64
	pins map[string]palyra.UpstreamPin // tools as they were approved last
	text map[pinned]palyra.Digest      // what was kept of a tool at a digest, as far as lines say
}

// pinned is a tool at one digest.
type pinned struct {
	name   string
	digest palyra.Digest
}

func (s *server) notePins(all ...palyra.UpstreamPin) {
	for _, p := range all {
		s.text[pinned{p.Name, p.Digest}] = p.Text
	}
}

// hearServer takes in a line about an MCP server.
func (a *Audit) hearServer(seq int64, e palyra.Event) {
	switch e := e.(type) {
	case *palyra.UpstreamAdded:
		a.servers[e.Name] = &server{UpstreamAdded: *e, seq: seq, pins: map[string]palyra.UpstreamPin{}, text: map[pinned]palyra.Digest{}}
		a.servers[e.Name].notePins(e.Tools...)
	case *palyra.UpstreamRemoved:
		delete(a.servers, e.Name)
	case *palyra.UpstreamApproved:
		if s := a.servers[e.Name]; s != nil {
			s.notePins(e.Tools...)
			for _, p := range e.Tools {
				s.pins[p.Name] = p
			}
		}
	case *palyra.UpstreamQuarantined:
		if s := a.servers[e.Name]; s != nil {
			s.notePins(palyra.UpstreamPin{Name: string(e.Tool), Digest: e.Digest, Text: e.Text})
		}
	}
}

// holdServers checks definitions, that no tool counts as approved that was not, and that no approved tool is
// missing: a server's last one goes with the server only.
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
	rows := map[[2]string]bool{}
	err = tx.Each(`SELECT upstream, name, tool FROM mcp_tools`, nil, func(scan func(...any) error) error {
		var name, tool, text string
		if err := scan(&name, &tool, &text); err != nil {
			return err
		}
		var t palyra.UpstreamTool
		s := a.servers[name]
		if s == nil || json.Unmarshal([]byte(text), &t) != nil || t.Name != tool || !s.held(t) {
			f = finding(0, "tool %.80q of server %.80q is not as it was approved", tool, name)
			return errFound
		}
		rows[[2]string{name, tool}] = true
		return nil
	})
	if f != nil || err != nil {
		return f, scanError(f, err)
	}
	for name, s := range a.servers {
		for tool := range s.pins {
			if !rows[[2]string{name, tool}] {
				return finding(s.seq, "tool %.80q of server %.80q was approved and has no row", tool, name), nil
			}
		}
	}
	return nil, nil
}

// held reports whether a tool is as it was approved, and whether its text is the one in its lines. A line of
// an earlier version has no digest of the text.
func (s *server) held(t palyra.UpstreamTool) bool {
	pin, approved := s.pins[t.Name]
	if approved != (t.Pinned != "") || t.Pinned != pin.Digest || t.ReadOnly != pin.ReadOnly ||
		t.State == palyra.UpstreamToolActive && t.Digest != t.Pinned {
		return false
	}
	want := s.text[pinned{t.Name, t.Digest}]
	if want == "" {
		return true
	}
	claims := t.Claims
	if claims == nil {
		claims = []string{}
	}
	sum, err := canon.Digest("upstream-text/v1", map[string]any{
		"title": t.Title, "description": t.Description, "input_schema": t.InputSchema, "claims": claims,
	})
	return err == nil && palyra.Digest(sum) == want
}
