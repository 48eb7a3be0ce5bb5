// Package gitremote has the tool by which git is connected to a repository at a server, and pushes to it. Only the daemon
// proposes it, when git in a room asks for that; so it walks the gate like any other call: it is judged, a person sees the
// repository, the server's key and which branch becomes what, and the decision is signed, recorded and attested.
//
// Running the tool connects nothing: whoever proposed it does, once the call is finished, and sends what was shown.
package gitremote

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/gitwire"
	"palyra/internal/show"
	"palyra/internal/tool"
)

// Name is the tool's name.
const Name = palyra.ToolGitRemote

// All returns the package's tools.
func All() []tool.Tool { return []tool.Tool{remote{}} }

type remote struct{}

const (
	maxInput  = 256 << 10
	maxColumn = 160
)

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["binding", "promise", "key", "host_key", "user", "at", "path", "service"],
  "properties": {
    "binding": {"type": "string", "minLength": 1, "maxLength": 128, "description": "The binding of the key."},
    "promise": {"type": "string", "minLength": 1, "maxLength": 32768, "description": "What the binding says of its key."},
    "key": {"type": "string", "minLength": 1, "maxLength": 128, "description": "The fingerprint of the key."},
    "host_key": {"type": "string", "minLength": 1, "maxLength": 2048, "description": "The fingerprint of the server's key."},
    "user": {"type": "string", "minLength": 1, "maxLength": 128, "description": "The user at the server."},
    "at": {"type": "string", "minLength": 1, "maxLength": 260, "description": "The server, host:port."},
    "path": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "The repository there."},
    "service": {"enum": ["git-upload-pack", "git-receive-pack"], "description": "What git wants there."},
    "updates": {"type": "array", "maxItems": 64, "items": {"type": "object"}, "description": "The refs that a push changes."}
  }
}`

// Spec implements tool.Tool.
func (remote) Spec() palyra.Tool {
	return palyra.Tool{
		Name: Name, Title: "Connect git", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Workspace: true,
		Description: "Asks whether git may be connected to a repository at a server with a bound key, or push to it. Palyra calls it itself " +
			"when a running program, such as 'git push', wants that.",
		Capabilities: []palyra.Capability{palyra.Network, palyra.SecretsRead}, InputSchema: json.RawMessage(schema), MaxInput: maxInput,
	}
}

// Plan implements tool.Tool.
func (remote) Plan(_ context.Context, env tool.Env, p *palyra.Plan) error {
	// Only the daemon gives a purpose: an agent inside a sandbox has a parent too, and must not prepare answers for later.
	if env.Parent == "" || env.Purpose == "" {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "Palyra itself proposes this, when a running program asks for a connection").
			WithRemedy("run git in a call with the binding of the key: palyra exec --secret NAME -- git push")
	}
	r, err := decode(*p)
	if err != nil {
		return err
	}
	p.Bindings, p.Egress, p.Enforcement.Mechanisms = []string{r.Binding}, []string{r.At}, []string{r.Promise}
	p.Detail.Summary = summary(r)
	for _, u := range r.Updates {
		p.Detail.Notes = append(p.Detail.Notes, update(u)...)
	}
	p.Detail.Notes = append(p.Detail.Notes,
		"repository "+show.Shorten(r.Path, maxColumn)+" at "+show.Line(r.At)+", as "+show.Line(r.User),
		"the server is known by "+show.Line(strings.ReplaceAll(r.HostKey, ",", " or ")),
		"key "+show.Line(r.Key)+", by the binding "+show.Line(r.Binding),
		"wanted by a program that runs now (call "+string(env.Parent)+"): "+show.Shorten(env.Purpose, maxColumn))
	return nil
}

func decode(p palyra.Plan) (r gitwire.Request, err error) {
	if err = tool.Arguments(p, &r); err != nil {
		return r, err
	}
	if !strings.HasPrefix(r.Promise, "binding:"+r.Binding+":") { // as secrets.Binding.Promise says it
		return r, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "it does not say what the binding of the key is for").
			WithRemedy("let git ask for the connection")
	}
	if !r.Valid() {
		return r, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the repository or the refs cannot be read").
			WithRemedy("let git ask for the connection")
	}
	return r, nil
}

func summary(r gitwire.Request) string {
	to := show.Shorten(r.Remote(), maxColumn)
	switch {
	case r.Service == gitwire.ServiceFetch:
		return "git reads the repository " + to
	case len(r.Updates) == 0:
		return "git logs in at the repository " + to + " and reads its branches, in order to push; the push itself is asked about by itself"
	case r.Loses():
		return fmt.Sprintf("git pushes %d refs to %s, and what others have there MAY BE LOST", len(r.Updates), to)
	}
	return "git pushes the branch " + show.Shorten(r.Branch(), maxColumn) + " to " + to
}

// hows say for people what becomes of a ref.
var hows = map[string]string{
	gitwire.HowCreate: "is made", gitwire.HowForward: "goes forward", gitwire.HowDelete: "IS DELETED",
	gitwire.HowForce: "IS OVERWRITTEN: what it had is lost, or it cannot be told that it is not",
}

func update(u gitwire.Update) (list []string) {
	how := hows[u.How]
	if how == "" {
		how = "is changed, nobody knows how"
	}
	list = append(list, show.Shorten(u.Ref, maxColumn)+" "+how+": "+show.Line(u.Old)+" → "+show.Line(u.New))
	for _, c := range u.Commits {
		list = append(list, "commit: "+show.Shorten(c, maxColumn))
	}
	if u.More > 0 {
		list = append(list, fmt.Sprintf("… and %d more commits", u.More))
	}
	return list
}

// Mechanisms implements tool.Confined.
func (remote) Mechanisms(p palyra.Plan) []string { return p.Enforcement.Mechanisms }

// Run implements tool.Tool.
func (remote) Run(_ context.Context, _ tool.Env, p palyra.Plan) (json.RawMessage, error) {
	r, err := decode(p)
	if err != nil {
		return nil, err
	}
	return tool.Encode(map[string]any{"at": r.At, "path": r.Path, "refs": len(r.Updates)})
}
