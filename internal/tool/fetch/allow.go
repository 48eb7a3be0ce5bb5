package fetch

import (
	"context"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/tool"
)

// allower has no effect of its own. A question that comes up while a program runs ("may it reach
// this host?") walks the gate as a call of this tool: judged, asked and on record like any other.
type allower struct{ Config }

const maxWhy = 500

const allowSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["host", "port"],
  "properties": {
    "host": {"type": "string", "minLength": 1, "maxLength": 253, "description": "Host name or address."},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "Port."},
    "why": {"type": "string", "maxLength": 500, "description": "What it is for, in a few words."}
  }
}`

// Spec implements tool.Tool.
func (allower) Spec() palyra.Tool {
	return palyra.Tool{
		Name: AllowName, Title: "Allow host", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, ReadOnly: true, Workspace: true,
		Description: "Asks whether a host may be reached, and connects to nothing. Palyra calls it itself when a running program wants " +
			"to reach a host that its plan does not name.",
		Capabilities: []palyra.Capability{palyra.Network}, InputSchema: json.RawMessage(allowSchema), MaxInput: 8 << 10,
	}
}

type allowArgs struct {
	Host string `json:"host"`
	Port int64  `json:"port"`
	Why  string `json:"why"`
}

// Plan implements tool.Tool.
func (t allower) Plan(_ context.Context, env tool.Env, p *palyra.Plan) error {
	// Only the daemon gives a purpose: an agent inside a sandbox has a parent too, and must not
	// prepare answers for later.
	if env.Parent == "" || env.Purpose == "" {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "Palyra itself proposes this, when a running program wants to reach a host").
			WithRemedy("name the host in the call that needs it: egress of palyra.process.run, or palyra.http.fetch")
	}
	a, at, err := t.decode(*p)
	if err != nil {
		return err
	}
	p.Egress = []string{at}
	p.Detail.Notes = append(p.Detail.Notes, t.inner(p.Egress)...)
	p.Detail.Summary = "allow " + at
	p.Detail.Notes = append(p.Detail.Notes, "wanted by a program that runs now (call "+string(env.Parent)+"): "+
		show.Shorten(env.Purpose, summaryLength))
	if a.Why != "" {
		p.Detail.Summary += " for " + strconv.Quote(show.Shorten(a.Why, summaryLength))
	}
	return nil
}

func (t allower) decode(p palyra.Plan) (a allowArgs, at string, err error) {
	if err := tool.Arguments(p, &a); err != nil {
		return a, "", err
	}
	if len(a.Why) > maxWhy || !utf8.ValidString(a.Why) {
		return a, "", malformed("why is at most %d bytes of text", maxWhy)
	}
	at, err = t.place(a.Host, strconv.FormatInt(a.Port, 10))
	return a, at, err
}

// Run implements tool.Tool.
func (t allower) Run(_ context.Context, _ tool.Env, p palyra.Plan) (json.RawMessage, error) {
	if _, at, err := t.decode(p); err != nil {
		return nil, err
	} else if len(p.Egress) != 1 || p.Egress[0] != at {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the host is not the plan's").WithRemedy("propose the call anew")
	}
	return tool.Encode(map[string]bool{"allowed": true})
}
