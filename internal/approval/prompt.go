package approval

import (
	"cmp"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/show"
)

// Bounds of the short texts of a prompt. Diffs and notes are shown whole.
const (
	maxTitle   = 256
	maxSummary = 2048
)

// promptOf puts the call into words. The plan itself is shown beside it, so
// that nothing here stands in for a bound field.
func (d *Desk) promptOf(c *palyra.Call) palyra.Prompt {
	detail := c.Plan.Detail
	if detail.Summary == "" && detail.Diff == "" && len(detail.Notes) == 0 {
		detail = c.Detail
	}
	p := palyra.Prompt{
		Title:       palyra.Clip(show.Controls(titleOf(c)), maxTitle),
		Summary:     palyra.Clip(show.Controls(detail.Summary), maxSummary),
		Risk:        riskOf(c.Verdict.Risk),
		Diff:        detail.Diff,
		Notes:       append([]string(nil), detail.Notes...),
		Explanation: explain(c.Verdict),
		Remedy:      c.Verdict.Remedy,
		Options:     offers(c.Plan, c.Verdict.Need),
	}
	if p.Summary == "" {
		p.Summary = palyra.Clip(show.Controls(c.Plan.String()), maxSummary)
	}
	if of := c.Proposal.Purpose; c.Proposal.Parent != "" && strings.HasPrefix(of, palyra.PurposeSkill) {
		p.Notes = append(p.Notes, palyra.Clip(show.Controls(of), maxTitle)+" asks for it while it runs, in call "+string(c.Proposal.Parent))
	}
	if w := c.Plan.Workspace; w.Path != "" && !w.Known {
		p.Notes = append(p.Notes, "the workspace is NEW: no operator registered it")
	}
	for _, offer := range []func(*palyra.Call) (palyra.Widening, bool){hostOffer, d.groupOffer, keyOffer} {
		if o, ok := offer(c); ok {
			p.Options = append(p.Options, o)
		}
	}
	p.Covers = d.reach(c.Plan, c.Verdict.Need, p.Options)
	return p
}

func titleOf(c *palyra.Call) string {
	if c.Plan.Effects != nil {
		return fmt.Sprintf("keep what %s changed for %s?", cmp.Or(c.Plan.Executable.Path, string(c.Plan.Tool)), c.Proposal.Principal)
	}
	verb := "use"
	if c.Plan.Executable.Path != "" {
		verb = "run " + c.Plan.Executable.Path + " with"
	}
	where := ""
	if c.Plan.Tier == palyra.TierUnsandboxed {
		where = ", by its own tools and outside any sandbox"
	}
	return fmt.Sprintf("%s wants to %s %s%s", c.Proposal.Principal, verb, c.Plan.Tool, where)
}

// riskOf returns the risk to show: one that nobody assessed is shown as the highest.
func riskOf(r palyra.Risk) palyra.Risk {
	switch r.Level {
	case palyra.RiskLow, palyra.RiskMedium, palyra.RiskHigh, palyra.RiskCritical:
		return r
	}
	return palyra.Risk{Level: palyra.RiskCritical, Factors: append([]string{"the risk was not assessed"}, r.Factors...)}
}

func explain(v palyra.Verdict) string {
	var lines []string
	if v.Reason != "" {
		lines = append(lines, show.Controls(v.Reason))
	}
	for _, p := range v.Policies {
		line := "policy " + p.ID
		if p.File != "" {
			line += fmt.Sprintf(" (%s:%d)", p.File, p.Line)
		}
		if p.Reason != "" {
			line += ": " + p.Reason
		}
		lines = append(lines, show.Controls(line))
	}
	if len(lines) == 0 {
		return "policy wants a person's answer for this call"
	}
	return strings.Join(lines, "\n")
}

// reach says what each wider scope would also cover.
func (d *Desk) reach(p palyra.Plan, n palyra.Need, options []palyra.Widening) string {
	if p.Effects != nil {
		return "once: these changes become the workspace's; a no drops them. Policy wants an answer for every run: no wider scope is offered."
	}
	once := fmt.Sprintf("once: this exact plan, one time, within %s.", show.Span(d.cfg.OnceTTL))
	if p.Unshown {
		return once + " What it writes is not all shown: no wider scope is offered."
	}
	if n.Fresh {
		return once + " Policy wants a fresh answer every time: no wider scope is offered."
	}
	text := once + " session: this exact plan, any number of times, until the session closes. " +
		fmt.Sprintf("timeboxed: the same, at most for the time you give (up to %s).", show.Span(d.cfg.MaxTTL))
	except := map[string]string{
		palyra.WidenReadRoot: readExceptions, palyra.WidenHost: pageExceptions, palyra.WidenBranch: commitExceptions,
		palyra.WidenRemote: remoteExceptions, palyra.WidenPush: pushExceptions,
	}
	for _, o := range options {
		switch o.Name {
		case palyra.WidenPathRoot, palyra.WidenWorkspace:
			text += fmt.Sprintf(" With %s both cover %s, whatever is written, in this session: %s.", o.Name, o.Label, editExceptions)
		default:
			if x := except[o.Name]; x != "" {
				text += fmt.Sprintf(" With %s both cover %s, in this session: %s.", o.Name, o.Label, x)
			} else {
				text += d.groupReach(o)
			}
		}
	}
	return text
}
