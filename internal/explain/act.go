package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/rpc/wire"
	"palyra/internal/show"
)

// raiseEndingLimit returns the changes for a run that a limit ended: without the limit that the call gave
// itself, else with a higher configured one.
func (p *Explainer) raiseEndingLimit(ctx context.Context, c *palyra.Call, reason palyra.Reason) []wire.Flip {
	name, text, killed := "timeout_ms", "its own time limit (--timeout)", p.endingLimit(ctx, c)
	if reason == palyra.ReasonQuotaExceeded {
		for _, l := range limits {
			if l.kill == killed {
				name, text = l.name, "its own limit limits."+l.name
			}
		}
	}
	return append(p.withoutLimit(ctx, c, name, text), p.settings(ctx, c, reason, killed)...)
}

// withoutLimit leaves out a limit that a call gave itself.
func (p *Explainer) withoutLimit(ctx context.Context, c *palyra.Call, name, text string) []wire.Flip {
	args, ok := object(c.Proposal.Arguments)
	if !ok {
		return nil
	}
	_, direct := args[name]
	delete(args, name)
	limits, _ := args["limits"].(map[string]any)
	_, nested := limits[name]
	if delete(limits, name); len(limits) == 0 {
		delete(args, "limits")
	}
	if !direct && !nested && (name != "timeout_ms" || c.Proposal.TimeoutMS == 0) {
		return nil
	}
	without := *c
	if name == "timeout_ms" {
		without.Proposal.TimeoutMS = 0
	}
	f, ok := p.tryCall(ctx, &without, args)
	if !ok || f.Becomes == palyra.Deny {
		return nil
	}
	f.Kind, f.Text = flipLimit, "leave out "+text
	return []wire.Flip{untried(f, openRun)}
}

// operatorCommands are commands of an operator that turn a refusal.
func (p *Explainer) operatorCommands(ctx context.Context, c *palyra.Call, reason palyra.Reason) []wire.Flip {
	switch reason {
	case palyra.ReasonScopeDenied:
		return append(bindFor(c), p.widenReach(ctx, c)...)
	case palyra.ReasonUnknownTool, palyra.ReasonQuarantined:
		return p.approveUpstreamTool(ctx, c.Proposal.Tool)
	case palyra.ReasonPosture:
		return []wire.Flip{untried(wire.Flip{
			Kind: flipMachine, Text: "try the tier out, and mend what that finds", Change: "palyra sandbox doctor", Becomes: palyra.Allow,
		}, openProbe)}
	}
	return nil
}

// bindFor has a secret bound for the call, where it names bindings.
func bindFor(c *palyra.Call) []wire.Flip {
	var args struct {
		Bindings []string `json:"bindings"`
	}
	if json.Unmarshal(c.Proposal.Arguments, &args) != nil || len(args.Bindings) == 0 {
		return nil
	}
	return []wire.Flip{untried(wire.Flip{
		Kind: flipAccess, Text: "have an operator bind the secret for this tool and workspace", Change: "palyra vault bind", Becomes: palyra.Ask,
	}, openReach)}
}

// widenReach lets the person behind the caller reach the workspace. A token that is bound closer than its
// person stays so: another one has to be made. A caller who imagines a call is held to their own reach, so
// nothing is tried elsewhere for them: whether a call can be planned tells of files that they may not see.
func (p *Explainer) widenReach(ctx context.Context, c *palyra.Call) []wire.Flip {
	if c.ID == "" {
		return []wire.Flip{untried(wire.Flip{Kind: flipAccess, Text: "have an operator widen what you reach", Becomes: palyra.Ask}, openReach)}
	}
	at, err := p.Workspaces.Resolve(ctx, c.Proposal.Workspace, c.Proposal.PeerUID)
	owner := c.Proposal.Owner
	if !c.Proposal.Principal.IsAgent() {
		owner = c.Proposal.Principal
	}
	_, reach, failed := p.Access.Cap(ctx, owner)
	if err != nil || failed != nil {
		return nil
	}
	other := *c
	other.Proposal.Within = append(slices.Clone(c.Proposal.Within), at.Path)
	if p.imagine(ctx, &other) != nil {
		return nil
	}
	f := wire.Flip{Kind: flipAccess, Becomes: p.Here.Policy.Judge(ctx, palyra.RequestOf(&other)).Effect, Verified: true}
	var uses []string
	if !at.Known {
		uses = append(uses, "palyra workspace add "+show.Arg(at.Path))
	}
	if len(reach) == 0 || slices.Contains(reach, at.Path) {
		f.Text = "give the caller a token that reaches the workspace"
		uses = append(uses, fmt.Sprintf("palyra access token add wider --for %s --scope runs.start --scope runs.view --workspace %s",
			c.Proposal.Principal, show.Arg(at.Path)))
	} else {
		f.Text = fmt.Sprintf("let %s reach the workspace", owner)
		use := "palyra access user change " + string(owner)
		for _, w := range append(slices.Clone(reach), at.Path) {
			use += " --workspace " + show.Arg(w)
		}
		uses = append(uses, use)
	}
	f.Change = strings.Join(uses, "\n")
	if f.Becomes == palyra.Deny {
		return nil
	}
	return []wire.Flip{f}
}

// approveUpstreamTool approves a tool of an upstream that waits for somebody to look at it.
func (p *Explainer) approveUpstreamTool(ctx context.Context, tool palyra.ToolName) []wire.Flip {
	if p.Upstreams == nil {
		return nil
	}
	all, err := p.Upstreams(ctx)
	if err != nil {
		return nil
	}
	for _, u := range all {
		for _, t := range u.Tools {
			if t.Tool == tool && t.State == palyra.UpstreamToolQuarantined {
				return []wire.Flip{untried(wire.Flip{
					Kind: flipAccess, Text: fmt.Sprintf("approve the tool, once you have looked at it ('palyra mcp show %s')", u.Name),
					Becomes: palyra.Ask,
					Change:  fmt.Sprintf("palyra mcp approve %s %s --digest %s", u.Name, show.Arg(t.Name), t.Digest),
				}, openLook)}
			}
		}
	}
	return nil
}

// openSeal runs a call with a profile that leaves the sealed name open, where there is such a profile. The
// text of the refusal begins with the name.
func (p *Explainer) openSeal(ctx context.Context, c *palyra.Call, said string) []wire.Flip {
	name, _, found := strings.Cut(said, " is sealed")
	args, isObject := object(c.Proposal.Arguments)
	if !found || !isObject || c.Proposal.Tool != palyra.ToolProcessRun {
		return nil
	}
	all, err := p.Profiles()
	if err != nil {
		return nil
	}
	var out []wire.Flip
	for _, one := range all {
		if !slices.ContainsFunc(one.Unseal, func(s string) bool { return strings.TrimSuffix(s, "/") == name }) {
			continue
		}
		changed := maps.Clone(args)
		changed["profile"] = one.Name
		if f, ok := p.tryCall(ctx, c, changed); ok && f.Becomes != palyra.Deny {
			f.Kind, f.Text = flipArguments, "run it with a profile that leaves it open: --profile "+one.Name
			out = append(out, untried(f, openRun))
		}
	}
	return out
}
