package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"palyra"
	"palyra/internal/policy/risk"
	"palyra/internal/subpath"
)

// permit is the narrowest policy that permits a pair: this principal, this action,
// this resource, and what the call does. It can be put into a bundle as it is.
func (c *judgement) permit(p pair) string {
	body := fmt.Sprintf("permit (principal == %s, action == %s, resource == %s)", c.principal, p.action, p.resource)
	if when := c.callConditions(); len(when) > 0 {
		body += "\nwhen { " + strings.Join(when, " && ") + " }"
	}
	if note := risk.Unseen(c.request.Plan); note != "" { // the note stays with the policy for people who read it later
		body = "@reason(\"permits " + note + ", which policy does not see\")\n" + body
	}
	return fmt.Sprintf("@id(%q)\n%s;", "permit-"+string(palyra.SumBytes([]byte(body)))[len("sha256:"):][:12], body)
}

// callConditions are the conditions that hold for this call alone. A permit for one call must not allow
// another program, other words, files, hosts or secrets.
func (c *judgement) callConditions() []string {
	p := c.request.Plan
	out := []string{"context.tier == " + quoted(string(p.Tier))}
	if p.Executable.Path != "" {
		out = append(out, "context has executable && context.executable.path == "+quoted(p.Executable.Path))
		if e := p.Executable; e.Sealed || subpath.Below(p.Workspace.Path, e.Path) { // whoever works there can put another in its place
			out = append(out, "context.executable.digest == "+quoted(string(e.Digest)))
		}
	}
	if len(p.Argv) > 0 {
		out = append(out, "context.command_line == "+quoted(risk.CommandLine(p.Argv)))
	}
	if p.Workspace.Path != "" {
		out = append(out, "context has workspace && context.workspace == "+quoted(p.Workspace.Path))
	}
	out = append(out, setEquals("reads", p.Reads)...)
	out = append(out, setEquals("writes", p.Writes)...)
	out = append(out, setEquals("secrets", p.Bindings)...)
	if hosts, err := HostsOf(p.Egress); err == nil {
		list := make([]string, len(hosts))
		for i, h := range hosts {
			list[i] = fmt.Sprintf("{host: %s, port: %d}", quoted(h.Name), h.Port)
		}
		out = append(out, setIs("egress", list))
	}
	if p.Executable.Path == "" {
		return out
	}
	return append(out, executionConditions(p)...)
}

// executionConditions are the conditions that a program runs under: in another directory, with other
// variables or in another sandbox the same words are another call.
func executionConditions(p palyra.Plan) []string {
	names := make([]string, len(p.Env))
	for i, v := range p.Env {
		names[i] = v.Name
	}
	out := append([]string{
		"context.cwd == " + quoted(p.Cwd), "context.network == " + quoted(string(p.Enforcement.Mode)), "context.profile == " + quoted(p.Profile),
	}, setEquals("env", names)...)
	for _, one := range []struct {
		name string
		is   bool
	}{
		{"stdin_live", p.Stdin == palyra.StdinLive},
		{"asks", p.Asks},
		{"unix_sockets", p.UnixSockets},
		{"agent_socket", p.AgentSocket},
	} {
		if one.is {
			out = append(out, "context."+one.name)
		} else {
			out = append(out, "!context."+one.name)
		}
	}
	return out
}

// permitText says what a permit is for, and what it cannot tell apart.
func permitText(p palyra.Plan) string {
	const text = "add a permit for this call to the policy bundle"
	switch {
	case risk.Unseen(p) != "":
		return text + "; it holds for " + risk.Unseen(p) + ", which policy does not see"
	case p.Executable.Path == "":
		return text + "; it holds for whatever else the tool is told, as long as files, hosts and secrets are the same"
	}
	return text
}

// setEquals is the condition that a set of texts equals list.
func setEquals(name string, list []string) []string {
	words := make([]string, 0, len(list))
	for _, s := range distinct(list) {
		words = append(words, quoted(s))
	}
	return []string{setIs(name, words)}
}

func setIs(name string, literals []string) string {
	if len(literals) == 0 {
		return "context." + name + ".isEmpty()"
	}
	return "context." + name + " == [" + strings.Join(literals, ", ") + "]"
}

// quoted is a text as Cedar writes it.
func quoted(s string) string { return string(cedar.String(s).MarshalCedar()) }

// exceptions are conditions that hold for this call, the narrowest first: not every one can stand in every policy.
// A call that does several things shows them all the same context, so that one condition is for all of them.
func (c *judgement) exceptions() []string {
	who := fmt.Sprintf("principal == %s", c.principal)
	tool := who + " && context has tool && context.tool == " + quoted(string(c.request.Tool.Name))
	out := []string{strings.Join(append([]string{tool}, c.callConditions()...), " && "), tool, who}
	if len(c.pairs) == 1 {
		p := c.pairs[0]
		one := fmt.Sprintf("%s && action == %s && resource == %s", who, p.action, p.resource)
		out = append([]string{strings.Join(append([]string{one}, c.callConditions()...), " && ")}, out...)
	}
	return out
}

// withException adds an exception to a policy. It stands first, so that a condition that fails to evaluate
// after it is not reached.
func withException(policy, when string) string {
	at := scopeEnd(policy)
	return policy[:at] + "\nunless { " + when + " }" + policy[at:]
}

// scopeEnd is where the scope of a policy ends: behind the parenthesis that follows permit or forbid.
func scopeEnd(policy string) int {
	pos, depth, note, scope := 0, 0, false, false
	for pos < len(policy) {
		rest := policy[pos:]
		n := 1
		switch {
		case strings.HasPrefix(rest, "//"):
			n = lengthThrough(rest, "\n", 2)
		case strings.HasPrefix(rest, "/*"):
			n = lengthThrough(rest, "*/", 2)
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
		default:
			n = width(rest)
			switch word := rest[:n]; {
			case word == "(":
				depth++
			case word == ")":
				if depth--; scope && depth == 0 {
					return pos + n
				}
			case depth == 0 && !note && (word == "permit" || word == "forbid"):
				scope = true
			}
			note = rest[:n] == "@"
		}
		pos += n
	}
	return len(policy)
}

// source is a policy's text in its file, or an equivalent text where the file is not the bundle's own.
func (b *Bundle) source(r *rule) string {
	text, ok := b.files[r.hit.File]
	places, problem := scan(text)
	if !ok || problem != nil {
		return string(r.policy.MarshalCedar())
	}
	for _, s := range slices.Backward(places) {
		if s.line < r.hit.Line || s.line == r.hit.Line && s.column <= r.hit.Column {
			return text[s.offset:s.end]
		}
	}
	return string(r.policy.MarshalCedar())
}

// parse reads policies as if they stood in a file of the bundle.
func (b *Bundle) parse(text string) (rules, error) {
	const file = "why.cedar"
	if _, problem := scan(text); problem != nil {
		return nil, bundleError(*problem)
	}
	list, err := cedar.NewPolicyListFromBytes(file, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("policy: flip: %w", err)
	}
	var out rules
	for _, policy := range list {
		r, problem := b.name(policy)
		if problem != nil {
			return nil, bundleError(*problem)
		}
		if err := b.valid.Policy("", (*ast.Policy)(policy.AST())); err != nil {
			return nil, fmt.Errorf("policy: flip: %w", err)
		}
		out = append(out, r)
	}
	return out, nil
}

// parseAs reads a policy that takes the place of another.
func (b *Bundle) parseAs(old *rule, text string) (*rule, error) {
	without := &Bundle{valid: b.valid, byID: map[cedar.PolicyID]*rule{}}
	list, err := without.parse(text)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("policy: flip: %d policies", len(list))
	}
	edit := *list[0]
	edit.id, edit.hit = old.id, old.hit
	return &edit, nil
}

// rewritten is the bundle with some policies replaced and others added, for a trial only: it keeps the digest
// and texts that it had.
func (b *Bundle) rewritten(old, edits rules) *Bundle {
	other := *b
	other.rules = slices.Clone(b.rules)
	other.byID = make(map[cedar.PolicyID]*rule, len(b.byID)+len(edits))
	for i, e := range edits {
		if i < len(old) {
			other.rules[slices.Index(other.rules, old[i])] = e
		} else {
			other.rules = append(other.rules, e)
		}
	}
	for _, r := range slices.Concat(other.rules, other.implied) {
		other.byID[r.id] = r
	}
	other.index = other.newIndex()
	return &other
}
