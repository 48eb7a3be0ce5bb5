package gate

import (
	"slices"

	"palyra"
)

// labels are those of one call.
type labels struct{ untrusted, secret, sent bool }

// labelsOf are the labels of a call that ran. A connection that came about brought
// something in, and one that carried bytes out sent something, whatever they were:
// a request to read a page carries its address, and an address can carry anything.
func labelsOf(c *palyra.Call, res palyra.Result) []string {
	e := natureOf(c)
	for _, f := range res.Egress {
		reached := f.Verdict == palyra.FlowAllowed && (f.Address != "" || f.In > 0 || f.Out > 0)
		e.untrusted = e.untrusted || reached
		e.sent = e.sent || reached && f.Out > 0
	}
	if res.Omitted > 0 || res.KillReason == palyra.StopPanic || opens(c) { // not all of it was seen, or it happens elsewhere
		return palyra.JoinLabels(e.names(), MayLabels(c)) // what was seen may be beyond the plan
	}
	return e.names()
}

// MayLabels are the labels of a call by what its plan lets it do: for one that is
// under way, and for one whose end nobody saw.
func MayLabels(c *palyra.Call) []string {
	e := natureOf(c)
	native := c.Plan.Tier == palyra.TierB || c.Plan.Tier == palyra.TierC
	if len(c.Plan.Egress) > 0 || can(c, palyra.Network) || native && c.Plan.Enforcement.Mode != palyra.NetworkStrict {
		e.untrusted, e.sent = true, true
	}
	return e.names()
}

// natureOf is what a call does whenever it runs. The arguments of a tool of
// another server leave for that server, and what it answers is its own.
func natureOf(c *palyra.Call) (e labels) {
	away := can(c, palyra.Browser) || can(c, palyra.NodeInvoke) || c.Plan.Tier == palyra.TierNode
	e.untrusted = c.Tool.Source != palyra.SourceBuiltin && c.Tool.Source != "" && !namesFiles(c) || away
	e.sent = c.Tool.Source == palyra.SourceMCP || can(c, palyra.ChannelSend) || away
	e.secret = len(c.Plan.Bindings) > 0 || can(c, palyra.SecretsRead) ||
		slices.ContainsFunc(c.Plan.Env, func(v palyra.EnvVar) bool { return v.Secret })
	return e
}

// namesFiles reports whether a call is of a tool of the agent's own that does nothing but read or write files of
// this machine that its plan names: what comes in by it is no more from outside than what our own tools read.
func namesFiles(c *palyra.Call) bool {
	return c.Tool.Source == palyra.SourceAgent && len(c.Plan.Reads)+len(c.Plan.Writes) > 0 &&
		!slices.ContainsFunc(slices.Concat(c.Tool.Capabilities, c.Plan.Capabilities), func(have palyra.Capability) bool {
			return have != palyra.FilesystemRead && have != palyra.FilesystemWrite
		})
}

// opens reports whether a call is the daemon's own question for a run that is under way: a yes lets that run out.
func opens(c *palyra.Call) bool { return c.Proposal.Parent != "" && c.Proposal.Purpose != "" }

// can reports whether the tool or the plan has a capability.
func can(c *palyra.Call, want palyra.Capability) bool {
	return slices.Contains(c.Tool.Capabilities, want) || slices.Contains(c.Plan.Capabilities, want)
}

func (e labels) names() []string {
	var out []string
	for _, l := range []struct {
		name string
		set  bool
	}{{palyra.LabelSent, e.sent}, {palyra.LabelSecret, e.secret}, {palyra.LabelUntrusted, e.untrusted}} {
		if l.set {
			out = append(out, l.name)
		}
	}
	return out
}
