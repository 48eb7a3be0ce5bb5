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
func (d *Desk) egressAlone(c *palyra.Call) bool {
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
	if s := c.Verdict.Standing; len(s.Roles)+len(s.Owner) > 0 { // as it was judged: nothing is looked up in a transaction
		r.Standing = &s
	}
	r.Plan.Capabilities, r.Tool.Capabilities = offline(p.Capabilities), offline(c.Tool.Capabilities)
	return d.cfg.Judge.Judge(context.Background(), r).Effect == palyra.Allow
}

// offline is a list of capabilities without that of reaching others.
func offline(all []palyra.Capability) []palyra.Capability {
	return slices.DeleteFunc(slices.Clone(all), func(c palyra.Capability) bool { return c == palyra.Network })
}

// groupOffer is the answer for the group that all hosts of a call are of, where that is all that is asked about.
func (d *Desk) groupOffer(c *palyra.Call) (palyra.Widening, bool) {
	g, ok := d.cfg.Groups.Of(c.Plan.Egress)
	if !ok || !d.egressAlone(c) {
		return palyra.Widening{}, false
	}
	return palyra.Widening{Name: groupWiden(g), Label: "hosts of " + g.Text() + ", from this workspace"}, true
}

// GroupOf names the group that a call's hosts are all of, with its hosts; alone: nothing else is asked about, so that one
// answer can be given for the group.
func (d *Desk) GroupOf(c *palyra.Call) (text string, alone bool) {
	g, ok := d.cfg.Groups.Of(c.Plan.Egress)
	if !ok {
		return "", false
	}
	return g.Text(), d.egressAlone(c)
}

// groupReach says what an answer for a group covers, with all of its hosts.
func (d *Desk) groupReach(o palyra.Widening) string {
	i := d.groupNamed(o.Name)
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(" With %s timeboxed covers reaching %s from this workspace, in any session of the one who asks; "+
		"session covers it in this one: %s.", o.Name, strings.Join(d.cfg.Groups[i].Places(), ", "), groupExceptions)
}

// groupExceptions are what an answer for a group never covers, in words.
const groupExceptions = "no other host, no secret, nothing that is asked about without a network"

// groupNamed finds the group that an answer is for, if it is still what it was.
func (d *Desk) groupNamed(widen string) int {
	return slices.IndexFunc(d.cfg.Groups, func(g hostgroup.Group) bool { return groupWiden(g) == widen })
}

// groupWiden is what people sign: the name of the group, and what it covered when they were asked.
func groupWiden(g hostgroup.Group) string { return palyra.WidenGroup + ":" + g.Name + ":" + g.Digest() }

// offered is a generalisation of a question, by its whole name; empty: there is none of the kind.
func offered(options []palyra.Widening, kind string) string {
	for _, o := range options {
		if o.Name == kind || strings.HasPrefix(o.Name, kind+":") {
			return o.Name
		}
	}
	return ""
}

func isGroup(widen string) bool { return strings.HasPrefix(widen, palyra.WidenGroup+":") }

// groupTerms are those of an answer for a group, as it was offered: for the workspace in any session where it is for a
// time, else in the session. A group that has changed since gives none.
func (d *Desk) groupTerms(a palyra.Approval, g extent) (palyra.Terms, bool) {
	i := d.groupNamed(g.widen)
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
func (d *Desk) coversCall(l leaseRow, c *palyra.Call) bool {
	if l.Terms.Group != "" {
		return d.inGroup(l.Terms, c) && d.egressAlone(c)
	}
	return covers(l.Terms, l.risk, c)
}

// stillCovers reports whether a lease that was found to cover a call, or was made for it, is for that call. A secret
// that was used since it was found is asked about; people who answered for the call itself have been asked.
func (d *Desk) stillCovers(l leaseRow, c *palyra.Call) bool {
	if l.Terms.Group != "" {
		own := c.Approval != "" && c.Approval == l.Approval
		return d.inGroup(l.Terms, c) && (own || !slices.Contains(c.Proposal.Labels, palyra.LabelSecret))
	}
	return covers(l.Terms, l.risk, c)
}

// coversQuestion reports whether a lease permits the call of a question. Whether that was asked about for its hosts
// alone, and whether a secret had been used, the question says by what it offers.
func (d *Desk) coversQuestion(l leaseRow, r record) bool {
	if l.Terms.Group != "" {
		return d.inGroup(l.Terms, r.asCall()) && offered(r.Prompt.Options, palyra.WidenGroup) != ""
	}
	return covers(l.Terms, l.risk, r.asCall()) && (!l.Terms.Pages || offered(r.Prompt.Options, palyra.WidenHost) != "")
}
