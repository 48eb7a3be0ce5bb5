package approval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/hostgroup"
)

// Judge is policy.
type Judge interface {
	// Judge never fails: what cannot be judged is denied.
	Judge(ctx context.Context, r palyra.Request) palyra.Verdict
}

// groupTools are the tools whose calls an answer for a group of hosts covers: programs, and what they ask for while they
// run.
var groupTools = []palyra.ToolName{palyra.ToolAllowHost, palyra.ToolProcessRun}

// egressAlone reports whether a call is asked about for nothing but the hosts that it reaches: policy would let it run
// that reached none. The guard must hold it to its hosts, and no secret may be where it could be sent from.
func (d *Desk) egressAlone(ctx context.Context, c *palyra.Call) bool {
	p := c.Plan
	held := p.Tool == palyra.ToolAllowHost && p.Tier == palyra.TierBuiltin ||
		p.Tool == palyra.ToolProcessRun && p.Tier == palyra.TierC && p.Enforcement.Mode == palyra.NetworkStrict
	if d.cfg.Judge == nil || !held || p.Source != palyra.SourceBuiltin || p.Effects != nil || len(p.Egress) == 0 || p.Workspace.Path == "" ||
		len(p.Bindings) > 0 || slices.ContainsFunc(p.Env, func(v palyra.EnvVar) bool { return v.Secret }) ||
		slices.Contains(c.Proposal.Labels, palyra.LabelSecret) || c.Verdict.Need.Fresh {
		return false
	}
	r := palyra.RequestOf(c)
	r.Plan.Egress = nil
	r.Plan.Capabilities, r.Tool.Capabilities = without(p.Capabilities, palyra.Network), without(c.Tool.Capabilities, palyra.Network)
	return d.cfg.Judge.Judge(ctx, r).Effect == palyra.Allow
}

func without[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return x == one })
}

// groupOffer is the answer for the group that all hosts of a call are of, where that is all that is asked about.
func (d *Desk) groupOffer(c *palyra.Call) (palyra.Widening, bool) {
	g, ok := d.cfg.Groups.Of(c.Plan.Egress)
	if !ok || !d.egressAlone(context.Background(), c) {
		return palyra.Widening{}, false
	}
	return palyra.Widening{Name: groupWiden(g), Label: fmt.Sprintf("reaching %s from %s", groupText(g), oneLine(c.Plan.Workspace.Path))}, true
}

// groupWiden is what people sign: the name of the group, and what it covered when they were asked.
func groupWiden(g hostgroup.Group) string { return palyra.WidenGroup + ":" + g.Name + ":" + g.Digest() }

// groupText names a group, and its hosts as far as a line has room.
func groupText(g hostgroup.Group) string {
	const most = 4
	list, more := g.Places(), ""
	if len(list) > most {
		list, more = list[:most], fmt.Sprintf(" and %d more", len(list)-most)
	}
	return g.Name + " (" + strings.Join(list, ", ") + more + ")"
}

// offeredGroup is the group of a question, as it was offered; empty: it offers none.
func offeredGroup(options []palyra.Widening) string {
	for _, o := range options {
		if isGroup(o.Name) {
			return o.Name
		}
	}
	return ""
}

func isGroup(widen string) bool { return strings.HasPrefix(widen, palyra.WidenGroup+":") }

// groupTerms are those of an answer for a group, as it was offered: for the workspace in any session where it is for a
// time, else in the session. A group that has changed since gives none.
func (d *Desk) groupTerms(a palyra.Approval, g extent) (palyra.Terms, bool) {
	i := slices.IndexFunc(d.cfg.Groups, func(one hostgroup.Group) bool { return groupWiden(one) == g.widen })
	if i < 0 || a.Plan.Workspace.Path == "" {
		return palyra.Terms{}, false
	}
	group := d.cfg.Groups[i]
	t := palyra.Terms{
		Principal: a.Principal, Session: a.Session, Tool: a.Plan.Tool, Tools: slices.Clone(groupTools), Workspace: a.Plan.Workspace.Path,
		Hosts: group.Places(), Room: a.Room, Group: group.Name, GroupDigest: palyra.Digest(group.Digest()),
	}
	if g.scope == palyra.ScopeTimeboxed {
		t.Session, t.Within = "", slices.Clone(a.Within)
	}
	return t, true
}

// inGroup reports whether the terms of a group are for a call: by the same caller in the same place, to hosts that the
// group had when people answered and still has.
func (d *Desk) inGroup(t palyra.Terms, c *palyra.Call) bool {
	p, bounds := c.Plan, c.Proposal.Within
	if t.Session == "" {
		bounds = t.Within
	}
	return t.Group != "" && t.PlanDigest == "" && t.PathRoot == "" && t.ReadRoot == "" && p.Effects == nil &&
		c.Proposal.Reach().May(palyra.ActUse, t.Reached(bounds)) && (t.Session == "" || t.Session == c.Proposal.Session) &&
		t.For(p.Tool) && t.Workspace != "" && t.Workspace == p.Workspace.Path &&
		len(p.Egress) > 0 && subset(p.Egress, t.Hosts) && d.cfg.Groups.Have(t.Group, p.Egress)
}

// coversCall reports whether a lease permits a call.
func (d *Desk) coversCall(ctx context.Context, l leaseRow, c *palyra.Call) bool {
	if l.Terms.Group != "" {
		return d.inGroup(l.Terms, c) && d.egressAlone(ctx, c)
	}
	return covers(l.Terms, l.risk, c)
}

// coversQuestion reports whether a lease permits the call of a question. Whether that was asked about for its hosts
// alone, the question says: then it offers a group.
func (d *Desk) coversQuestion(l leaseRow, r record) bool {
	if l.Terms.Group != "" {
		return d.inGroup(l.Terms, r.asCall()) && offeredGroup(r.Prompt.Options) != ""
	}
	return covers(l.Terms, l.risk, r.asCall())
}
