package replay

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/risk"
)

// shape is one description of a call: the parts that must be equal, and sets that may not go beyond what was seen.
type shape struct {
	key   string
	level int // 0: this command or these files here; 1: this program here; 2: this program in any registered workspace
	equal []string
	about string // for people
	input int    // bytes of the arguments
	seen  bool   // nobody was asked: calls were observed
	sets  [setCount][]string
}

// The sets of a shape, with the attribute that each bounds.
const (
	setArgv = iota
	setEnv
	setReads
	setWrites
	setLabels
	setEgress
	setCount
)

var setNames = [setCount]string{"argv", "env", "reads", "writes", "labels", "egress"}

// suggestable are the capabilities of which policy sees enough: which program, files and hosts. A few words
// cannot describe a message that is sent, a click on a page or a secret.
var suggestable = []palyra.Capability{
	palyra.FilesystemRead, palyra.FilesystemWrite, palyra.Network, palyra.ProcessExec,
}

// mayBePermitted reports whether a rule may ever let a call run without a question: it is Palyra's own tool,
// in a registered workspace, with nothing unseen, nothing that cannot be taken back and, for a program,
// understood to its last word.
func mayBePermitted(r palyra.Request, cmd palyra.Command) bool {
	p, f := r.Plan, risk.Examine(r)
	if r.Tool.Source != palyra.SourceBuiltin || r.Parent != "" || len(p.Bindings) > 0 || p.Stdin == palyra.StdinLive || p.Terminal ||
		p.Asks || p.Unshown || p.Lasting || p.UnixSockets || p.AgentSocket || p.Staging.LiveAsked() || f.Destructive ||
		f.Workspace && !p.Workspace.Known {
		return false
	}
	if slices.ContainsFunc(f.Capabilities, func(c palyra.Capability) bool { return !slices.Contains(suggestable, c) }) {
		return false
	}
	if p.Executable.Path == "" {
		return len(p.Argv) == 0 && len(p.Reads)+len(p.Writes)+len(p.Egress) > 0
	}
	known := cmd.Class == palyra.CommandReadOnly || cmd.Class == palyra.CommandBuild || cmd.Class == palyra.CommandWrite
	return known && cmd.Understood && !cmd.RunsCode && !cmd.Shell && len(cmd.Outside) == 0
}

// shapes describes a call, the narrowest first; nil where no rule may be made of it.
func shapes(r palyra.Request, cmd palyra.Command) []shape {
	p := r.Plan
	who, err := policy.PrincipalUID(r.Principal)
	if err != nil || !mayBePermitted(r, cmd) {
		return nil
	}
	both := commonOf(p, cmd)
	here := []string{"!context.workspace_needed"}
	if p.Workspace.Path != "" {
		here = []string{"context has workspace", "context.workspace == " + literal(p.Workspace.Path)}
	}
	sets := setsOf(r)
	about := string(r.Tool.Name)
	exact := []string{"context.cwd == " + literal(p.Cwd)}
	if p.Executable.Path != "" {
		exact = append(exact, "context.command_line == "+literal(risk.CommandLine(p.Argv)))
		about = strings.TrimSpace(p.Executable.Path + " " + cmd.Subcommand)
	}
	out := []shape{
		{level: 0, equal: slices.Concat(both, here, exact), about: about, sets: sets},
		{level: 1, equal: slices.Concat(both, here), about: about, sets: sets},
	}
	if p.Workspace.Path != "" {
		out = append(out, shape{level: 2, equal: both, about: about, sets: sets})
	}
	for i := range out {
		key := append([]string{strconv.Itoa(out[i].level), string(who.ID), string(r.Tool.Name)}, out[i].equal...)
		if out[i].level == 0 && p.Executable.Path == "" { // nothing but its sets tells one such call from another
			for _, s := range sets {
				key = append(key, strings.Join(s, "\x01"))
			}
		}
		out[i].key, out[i].input = strings.Join(append(key, scopeOf(who, string(r.Tool.Name))), "\x00"), len(p.Arguments)
	}
	return out
}

// seenOnly are the descriptions of a call that was observed: nobody said yes to it. Where it reaches a host no rule is made
// of it, and none holds beyond its workspace; kinds of calls that people allowed are others.
func seenOnly(r palyra.Request, list []shape) []shape {
	f := risk.Examine(r)
	if len(r.Plan.Egress) > 0 || slices.Contains(f.Capabilities, palyra.Network) || r.Plan.Workspace.Path == "" {
		return nil
	}
	list = slices.DeleteFunc(list, func(s shape) bool { return s.level > 1 })
	for i := range list {
		list[i].seen, list[i].key = true, "observed\x00"+list[i].key
	}
	return list
}

// scopeOf is who, what and on what.
func scopeOf(who cedar.EntityUID, tool string) string {
	return fmt.Sprintf("(\n  principal == %s,\n  action == Action::\"tool.execute\",\n  resource == %s\n)",
		who.MarshalCedar(), cedar.NewEntityUID("Tool", cedar.String(tool)).MarshalCedar())
}

// commonOf are the conditions of every rule that is made of the call.
func commonOf(p palyra.Plan, cmd palyra.Command) []string {
	out := []string{
		`resource.source == "builtin"`, "(!context.workspace_needed || context.workspace_known)", "!context.destructive", "!context.asks",
		"!context.stdin_live",
		"!context.unix_sockets", "!context.agent_socket", "!(context has parent)", "context.secrets.isEmpty()",
		"context.tier == " + literal(string(p.Tier)), "context.network == " + literal(string(p.Enforcement.Mode)),
		"context.profile == " + literal(p.Profile),
	}
	if p.Executable.Path == "" {
		return append(out, "!(context has executable)")
	}
	out = append(out, "context has executable", "context.executable.path == "+literal(p.Executable.Path), "context.command.understood",
		"!context.command.runs_code", "!context.command.shell", "context.command.outside.isEmpty()",
		"context.command.class == "+literal(string(cmd.Class)))
	if cmd.Subcommand == "" {
		return append(out, "!(context has subcommand)")
	}
	return append(out, "context has subcommand", "context.subcommand == "+literal(cmd.Subcommand))
}

// setsOf are what a call names, sorted.
func setsOf(r palyra.Request) (out [setCount][]string) {
	p := r.Plan
	names := make([]string, len(p.Env))
	for i, v := range p.Env {
		names[i] = v.Name
	}
	hosts, _ := policy.HostsOf(p.Egress) // the call was judged, so they can be read
	places := make([]string, len(hosts))
	for i, h := range hosts {
		places[i] = fmt.Sprintf("{\"host\": %s, \"port\": %d}", literal(h.Name), h.Port)
	}
	for i, list := range [setCount][]string{p.Argv, names, p.Reads, p.Writes, r.Labels, places} {
		out[i] = slices.Compact(slices.Sorted(slices.Values(list)))
	}
	return out
}

// literal is a text as Cedar writes it.
func literal(s string) string { return string(cedar.String(s).MarshalCedar()) }

// group is all calls of one shape.
type group struct {
	shape
	count int64  // questions
	child string // the narrower kind that all its calls are of
	many  bool   // or there is more than one
}

func newGroup(s shape) *group { return &group{shape: s} }

// add takes in a call of the group's shape.
func (g *group) add(s shape, below string, asked bool) {
	g.child = cmp.Or(g.child, below)
	g.many = g.many || g.child != below
	if asked {
		g.count++
	}
	g.input = max(g.input, s.input)
	for i := range g.sets {
		if len(g.sets[i]) <= suggestSet {
			g.sets[i] = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(g.sets[i]), s.sets[i]...))))
		}
	}
}

// fits reports whether the group can be written down in a few words.
func (g *group) fits() bool {
	return !slices.ContainsFunc(g.sets[:], func(list []string) bool { return len(list) > suggestSet })
}

// rule is the permit for the group's calls.
func (g *group) rule() *trialRule {
	conditions := slices.Clone(g.equal)
	for i, list := range g.sets {
		if i == setArgv && g.level == 0 {
			continue // the whole line is fixed
		}
		conditions = append(conditions, setBound(i, list))
	}
	if len(g.sets[setEgress]) > 0 { // policy sees the host, and of what is sent to it only how much
		conditions = append(conditions, fmt.Sprintf("context.input_bytes <= %d", g.input))
	}
	scope := g.key[strings.LastIndexByte(g.key, 0)+1:]
	body := fmt.Sprintf("permit %s\nwhen {\n  %s\n};", scope, strings.Join(conditions, " &&\n  "))
	sum := sha256.Sum256([]byte(body))
	out := &trialRule{id: "suggested-" + hex.EncodeToString(sum[:6]), level: g.level, calls: map[int]palyra.CallID{}}
	out.reason = palyra.Clip(printable(g.about), 200) + ": people were asked and said yes every time"
	if g.seen {
		out.reason = palyra.Clip(printable(g.about), 200) + ": seen while calls were observed; nobody was asked"
	}
	out.text = fmt.Sprintf("@id(%s)\n@reason(%s)\n@remedy(%s)\n%s", literal(out.id), literal(out.reason),
		literal("an operator can remove this rule from the policy bundle"), body)
	return out
}

// setBound is the condition that a set of the context stays within a list.
func setBound(i int, list []string) string {
	name := "context." + setNames[i]
	if len(list) == 0 {
		return name + ".isEmpty()"
	}
	if i == setEgress {
		return "[" + strings.Join(list, ", ") + "].containsAll(" + name + ")"
	}
	words := make([]string, len(list))
	for j, w := range list {
		words[j] = literal(w)
	}
	return "[" + strings.Join(words, ", ") + "].containsAll(" + name + ")"
}

// printable removes characters that an annotation may not hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}
