package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy/risk"
)

// askChanges are the changes that could save a question. There are none where the answer must be a new one,
// where the call cannot be taken back, or where a permit would hold for more than a person saw: nobody is
// told how to avoid such a question.
func (c *judgement) askChanges(v palyra.Verdict) []change {
	out := c.nonPolicyChanges()
	if !v.Need.Fresh && !c.irreversible() && risk.Unseen(c.request.Plan) == "" {
		out = append(out, c.permitChanges(v, palyra.Ask)...)
	}
	return out
}

// irreversible reports whether the call reaches beyond the work.
func (c *judgement) irreversible() bool {
	return risk.Examine(c.request).Destructive || c.words.Class == palyra.CommandDestructive
}

// nonPolicyChanges are changes that leave policy as it is.
func (c *judgement) nonPolicyChanges() []change {
	var out []change
	r := c.request
	if p := r.Plan.Workspace; p.Path != "" && !p.Known {
		out = append(out, change{
			kind: flipWorkspace, text: "register the workspace", use: "palyra workspace add " + risk.ShellWord(p.Path),
			apply: func(t *trial) { t.request.Plan.Workspace.Known = true },
		})
	}
	list := func(have names, all []string, name, setting string, put func(*state, names)) {
		if name == "" || have.has(name) || strings.HasSuffix(name, "*") { // a name that ends in * would be a prefix and let others in
			return
		}
		longer := append(slices.Clone(all), name)
		out = append(out, change{
			kind: flipConfig, text: fmt.Sprintf("add %q to %s in the configuration", name, setting), use: setting + " = " + risk.TOMLList(longer),
			apply: func(t *trial) {
				s := *t.state
				put(&s, newNames(longer))
				t.state = &s
			},
		})
	}
	list(c.tools, c.snapshot.AllowedTools, string(r.Tool.Name), "tools.allowed", func(s *state, n names) { s.tools = n })
	list(c.principals, c.snapshot.Principals, string(r.Principal), "tools.tool_execute_principals",
		func(s *state, n names) { s.principals = n })
	list(c.surfaces, c.snapshot.Channels, string(r.Surface), "tools.tool_execute_surfaces", func(s *state, n names) { s.surfaces = n })
	return out
}

// permitChanges is the narrowest permit for the pairs with this effect: for those that no policy speaks
// about, and for all of them where a forbid may hide that no policy permits.
func (c *judgement) permitChanges(v palyra.Verdict, effect palyra.Effect) []change {
	var silent, all []string
	for i, p := range c.pairs {
		if i >= len(v.Pairs) || v.Pairs[i].Effect != effect {
			continue
		}
		text := c.permit(p)
		all = append(all, text)
		if len(v.Pairs[i].Policies) == 0 {
			silent = append(silent, text)
		}
	}
	var out []change
	for _, some := range [][]string{silent, all} {
		text := strings.Join(some, "\n")
		edit, err := c.bundle.parse(text)
		if err != nil || len(edit) == 0 {
			continue
		}
		out = append(out, change{
			kind: flipPolicy, text: permitText(c.request.Plan), use: text,
			apply: func(t *trial) { t.rewrite(nil, edit) },
		})
		if len(silent) == len(all) {
			break
		}
	}
	return out
}

// exceptionChanges rewrites each policy that stands in the way with an exception for this call. It is empty
// where one of them can have no exception.
func (c *judgement) exceptionChanges(v palyra.Verdict) []change {
	for _, except := range c.exceptions() {
		var out []change
		ok := true
		for _, hit := range v.Policies {
			r := c.bundle.byID[cedar.PolicyID(hit.ID)]
			if r == nil || r.hit.File == "" || hit.Effect == "permit" && len(v.Errors) == 0 { // what is implied stands in no file
				continue
			}
			text := withException(c.bundle.source(r), except)
			edit, err := c.bundle.parseAs(r, text)
			if ok = err == nil; !ok {
				break
			}
			out = append(out, change{
				kind: flipPolicy, text: exemptText(r.hit), use: text, old: rules{r}, edits: rules{edit},
				apply: func(t *trial) { t.rewrite(rules{r}, rules{edit}) },
			})
		}
		if ok && len(out) > 0 {
			return out
		}
	}
	return nil
}

// exemptText says what an exception is for.
func exemptText(h palyra.PolicyHit) string {
	return fmt.Sprintf("exempt this call from policy %s (%s:%d)", h.ID, h.File, h.Line)
}

// rewrite judges with other policies.
func (t *trial) rewrite(old, edits rules) {
	s := *t.state
	s.bundle = s.bundle.rewritten(old, edits)
	t.state = &s
}
