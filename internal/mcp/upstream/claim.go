package upstream

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

// claims are a server's own statements about a tool, for people to read. They are pinned with the tool and
// take part in no judgement.
func claims(a *mcp.ToolAnnotations) (out []string) {
	if a == nil {
		return nil
	}
	say := func(it *bool, yes, no string) {
		switch {
		case it == nil:
		case *it:
			out = append(out, yes)
		default:
			out = append(out, no)
		}
	}
	if a.ReadOnlyHint {
		out = append(out, "read-only")
	}
	say(a.DestructiveHint, "destructive", "not destructive")
	if a.IdempotentHint {
		out = append(out, "idempotent")
	}
	say(a.OpenWorldHint, "reaches out", "does not reach out")
	return out
}

// claimNotes are the notes of a plan about who says what of its tool.
func claimNotes(name string, t palyra.UpstreamTool) (out []string) {
	if len(t.Claims) > 0 {
		out = append(out, "the MCP server "+name+" says that the tool is: "+strings.Join(t.Claims, ", ")+"; nothing checks that")
	}
	if t.ReadOnly {
		out = append(out, "an operator has said that the tool only looks")
	}
	return out
}
