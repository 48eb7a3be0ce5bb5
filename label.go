package palyra

import "slices"

// The labels of a session: what its calls did that policy should know of later. They are set by what was seen to
// happen and never taken away.
const (
	LabelUntrusted = "untrusted-input" // content came in that nobody here wrote
	LabelSecret    = "secret-read"     // a secret was used
	LabelSent      = "external-write"  // bytes went out
)

// effects are the labels of one call.
type effects struct{ untrusted, secret, sent bool }

// Effects are the labels of a call that ran. A connection that came about brought something in, and one that carried
// bytes out sent something, whatever they were: a request to read a page carries its address, and an address can
// carry anything.
func Effects(c *Call, res Result) []string {
	e := natureOf(c)
	for _, f := range res.Egress {
		reached := f.Verdict == FlowAllowed && (f.Address != "" || f.In > 0 || f.Out > 0)
		e.untrusted = e.untrusted || reached
		e.sent = e.sent || reached && f.Out > 0
	}
	if res.Omitted > 0 || res.KillReason == StopPanic || opens(c) { // not all of it was seen, or it happens elsewhere
		return JoinLabels(e.labels(), MayEffect(c)) // what was seen may be beyond the plan
	}
	return e.labels()
}

// MayEffect are the labels of a call by what its plan lets it do: for one that is under way, and for one whose end
// nobody saw.
func MayEffect(c *Call) []string {
	e := natureOf(c)
	native := c.Plan.Tier == TierB || c.Plan.Tier == TierC
	if len(c.Plan.Egress) > 0 || can(c, Network) || native && c.Plan.Enforcement.Mode != NetworkStrict {
		e.untrusted, e.sent = true, true
	}
	return e.labels()
}

// natureOf is what a call does whenever it runs. The arguments of a tool of another server leave for that server, and
// what it answers is its own.
func natureOf(c *Call) (e effects) {
	e.untrusted = c.Tool.Source != SourceBuiltin && c.Tool.Source != "" && !namesFiles(c) || can(c, Browser) || can(c, NodeInvoke) || c.Plan.Tier == TierNode
	e.sent = c.Tool.Source == SourceMCP || can(c, ChannelSend) || can(c, Browser) || can(c, NodeInvoke) || c.Plan.Tier == TierNode
	e.secret = len(c.Plan.Bindings) > 0 || can(c, SecretsRead) || slices.ContainsFunc(c.Plan.Env, func(v EnvVar) bool { return v.Secret })
	return e
}

// namesFiles reports whether a call is of a tool of the agent's own that does nothing but read or write files of this
// machine that its plan names: what comes in by it is no more from outside than what our own tools read.
func namesFiles(c *Call) bool {
	return c.Tool.Source == SourceAgent && len(c.Plan.Reads)+len(c.Plan.Writes) > 0 &&
		!slices.ContainsFunc(slices.Concat(c.Tool.Capabilities, c.Plan.Capabilities), func(have Capability) bool {
			return have != FilesystemRead && have != FilesystemWrite
		})
}

// opens reports whether a call is the daemon's own question for a run that is under way: a yes lets that run out.
func opens(c *Call) bool { return c.Proposal.Parent != "" && c.Proposal.Purpose != "" }

// can reports whether the tool or the plan has a capability.
func can(c *Call, want Capability) bool {
	return slices.Contains(c.Tool.Capabilities, want) || slices.Contains(c.Plan.Capabilities, want)
}

func (e effects) labels() []string {
	var out []string
	for _, l := range []struct {
		name string
		set  bool
	}{{LabelSent, e.sent}, {LabelSecret, e.secret}, {LabelUntrusted, e.untrusted}} {
		if l.set {
			out = append(out, l.name)
		}
	}
	return out
}

// JoinLabels returns the labels of both lists, sorted, each once; nil when there is none.
func JoinLabels(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
