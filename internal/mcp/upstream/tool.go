package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/canon"
)

// Bounds of a server's statements about its tools.
const (
	toolDomain     = "upstream-tool/v1"
	textDomain     = "upstream-text/v1"
	maxTools       = 256
	maxPages       = 64
	maxDescription = 32 << 10
	maxTitle       = 512
	maxSchema      = 128 << 10
	maxArguments   = 1 << 20
)

// toolForm is the form of the name of an upstream's tool.
var toolForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// ToolName is a tool's name in the catalog.
func ToolName(upstream, tool string) palyra.ToolName {
	return palyra.ToolName("mcp." + upstream + "." + tool)
}

// definition is all of a tool that is pinned.
type definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Annotations json.RawMessage `json:"annotations"`
}

// read turns a server's statement about a tool into ours. A tool that can never be offered is refused with
// the reason, and none of its texts is kept.
func read(upstream string, t *mcp.Tool) palyra.UpstreamTool {
	out := palyra.UpstreamTool{Name: palyra.Clip(t.Name, 64), State: palyra.UpstreamToolQuarantined, InputSchema: json.RawMessage(`{}`)}
	refuse := func(format string, args ...any) palyra.UpstreamTool {
		out.State, out.Why = palyra.UpstreamToolRefused, fmt.Sprintf(format, args...)
		out.Title, out.Description, out.InputSchema = "", "", json.RawMessage(`{}`)
		out.Digest = palyra.SumBytes([]byte(t.Name))
		return out
	}
	if !toolForm.MatchString(t.Name) {
		out.Name = fmt.Sprintf("%+q", out.Name)
		return refuse("its name is not 1 to 64 characters out of letters, digits, '_', '.' and '-'")
	}
	out.Tool, out.Title, out.Description = ToolName(upstream, t.Name), t.Title, t.Description
	if t.Annotations != nil && out.Title == "" {
		out.Title = t.Annotations.Title
	}
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return refuse("its schema cannot be read")
	}
	annotations, err := json.Marshal(t.Annotations)
	switch {
	case err != nil:
		return refuse("its annotations cannot be read")
	case len(t.Description) > maxDescription || len(t.Title) > maxTitle || len(out.Title) > maxTitle:
		return refuse("its description or title is too long: %d bytes of at most %d", len(t.Description)+len(t.Title), maxDescription)
	case len(schema) > maxSchema:
		return refuse("its schema has %d bytes, over %d", len(schema), maxSchema)
	}
	if _, err := canon.Parse(schema); err != nil {
		return refuse("its schema is nested too deeply, or not clean JSON")
	}
	out.InputSchema, out.Claims = schema, claims(t.Annotations)
	sum, err := canon.Digest(toolDomain, definition{t.Name, t.Title, t.Description, schema, annotations})
	if err != nil {
		return refuse("its definition has no digest")
	}
	out.Digest = palyra.Digest(sum)
	return out
}

// textOf is the digest of the text that agents and operators are shown of a tool. It stands in the lines
// about the tool, since the row of a tool does not hold everything that its own digest is made of.
func textOf(t palyra.UpstreamTool) (palyra.Digest, error) {
	sum, err := canon.Digest(textDomain, struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
		Claims      []string        `json:"claims"`
	}{t.Title, t.Description, t.InputSchema, notNil(t.Claims)})
	return palyra.Digest(sum), err
}

// foldName is a name without what tells similar ones apart.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' {
			return '_'
		}
		return r
	}, strings.ToLower(name))
}

// shadows names the tool whose place a name would take; empty when there is none.
func shadows(name string, builtin []palyra.Tool) string {
	is := foldName(name)
	for _, t := range builtin {
		if t.Source != palyra.SourceMCP && is == foldName(string(t.Name)) {
			return string(t.Name)
		}
	}
	if is == "palyra" || strings.HasPrefix(is, "palyra_") {
		return "a tool of Palyra's own"
	}
	return ""
}

// survey looks at all tools of a server together: which were approved, which are new, changed or gone, and
// which names collide. It says which of them went into quarantine just now.
func (s *server) survey(found []*mcp.Tool, was []palyra.UpstreamTool) (now, quarantined []palyra.UpstreamTool) {
	builtin := s.r.Catalog.List()
	taken := map[string]int{}
	for _, t := range found {
		taken[foldName(t.Name)]++
	}
	seen := map[string]bool{}
	for _, t := range found {
		u := read(s.name, t)
		if seen[u.Name] {
			continue
		}
		seen[u.Name] = true
		if u.State != palyra.UpstreamToolRefused {
			s.suit(&u, builtin, taken[foldName(t.Name)])
		}
		old := toolBefore(was, u.Name)
		u.Pinned, u.ReadOnly = old.Pinned, old.ReadOnly
		if u.State == palyra.UpstreamToolQuarantined {
			settle(&u)
		}
		if u.State == palyra.UpstreamToolQuarantined && (old.State != u.State || old.Digest != u.Digest) {
			quarantined = append(quarantined, u)
		}
		now = append(now, u)
	}
	for _, old := range was {
		if old.Pinned != "" && !seen[old.Name] {
			old.State, old.Why = palyra.UpstreamToolGone, "the server no longer has it"
			now = append(now, old)
		}
	}
	slices.SortFunc(now, func(a, b palyra.UpstreamTool) int { return strings.Compare(a.Name, b.Name) })
	return now, quarantined
}

// suit refuses a tool whose name or schema can never be offered.
func (s *server) suit(u *palyra.UpstreamTool, builtin []palyra.Tool, named int) {
	refuse := func(why string) { u.State, u.Why = palyra.UpstreamToolRefused, why }
	if of := shadows(u.Name, builtin); of != "" {
		refuse("it would pass for " + of)
		return
	}
	if named > 1 {
		refuse("several tools of the server have this name, or one that cannot be told from it")
		return
	}
	if err := s.r.Catalog.Usable(s.tool(*u)); err != nil {
		refuse("its schema cannot be used: " + palyra.Clip(palyra.AsError(err).Text, 200))
	}
}

// settle says whether a tool that could be offered is.
func settle(u *palyra.UpstreamTool) {
	switch {
	case u.Pinned == u.Digest:
		u.State, u.Why = palyra.UpstreamToolActive, ""
	case u.Pinned == "":
		u.State, u.Why = palyra.UpstreamToolQuarantined, "nobody has approved it yet"
	default:
		u.State, u.Why = palyra.UpstreamToolQuarantined, "it has changed since it was approved"
	}
}

func toolBefore(was []palyra.UpstreamTool, name string) palyra.UpstreamTool {
	for _, t := range was {
		if t.Name == name {
			return t
		}
	}
	return palyra.UpstreamTool{}
}

// tool is one as the catalog has it. A server's hints, that a tool only reads for one, are never believed; an
// operator's word about an approved tool is.
func (s *server) tool(u palyra.UpstreamTool) palyra.Tool {
	t := palyra.Tool{
		Name: ToolName(s.name, u.Name), Title: u.Title, Description: u.Description, Source: palyra.SourceMCP, InputSchema: u.InputSchema,
		MaxInput:     maxArguments,
		ReadOnly:     u.ReadOnly && u.State == palyra.UpstreamToolActive,
		Capabilities: []palyra.Capability{palyra.Network}, Tier: palyra.TierBuiltin,
	}
	t.Description = cmp.Or(t.Description, "A tool of the MCP server "+s.name+", which does not describe it.")
	if s.def.Transport == palyra.TransportStdio {
		t.Tier, t.Capabilities = palyra.TierC, []palyra.Capability{palyra.ProcessExec}
		if len(s.def.Egress) > 0 {
			t.Capabilities = append(t.Capabilities, palyra.Network)
		}
		if s.def.Workspace != "" {
			t.Capabilities = append(t.Capabilities, palyra.FilesystemRead)
			if !strings.HasSuffix(s.def.Workspace, palyra.UpstreamReadOnly) {
				t.Capabilities = append(t.Capabilities, palyra.FilesystemWrite)
			}
		}
	}
	return t
}
