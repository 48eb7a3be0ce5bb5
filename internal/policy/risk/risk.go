// Package risk says what a call amounts to, from what its plan does and not only from what its tool
// says of itself: named factors, each with a rank, and whether any of it cannot be taken back. Policies
// compare the rank and match the names; people read the details. It decides nothing.
package risk

import (
	"cmp"
	"encoding/json"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/gitwire"
	"palyra/internal/publicip"
	"palyra/internal/trusted"
)

var levels = palyra.RiskLevels()

// factor is one named reason for a risk. Names are stable: policies match them. Detail is for people.
type factor struct {
	name, detail string
	rank         int
}

func (f factor) String() string {
	if f.detail == "" {
		return f.name
	}
	return f.name + ": " + f.detail
}

// Findings is what a plan amounts to, derived from what it does and not only from what its tool says of itself.
type Findings struct {
	Capabilities []palyra.Capability // of tool and plan, sorted
	Sensitive    bool
	ReadOnly     bool
	Destructive  bool
	Workspace    bool // works in one
	factors      []factor
}

// capabilityRank is the risk that a capability brings. One that is not listed and not harmless is high.
var capabilityRank = map[palyra.Capability]int{
	palyra.FilesystemWrite: 1, palyra.Network: 1,
	palyra.ProcessExec: 2, palyra.SecretsRead: 2, palyra.ChannelSend: 2, palyra.Browser: 2, palyra.NodeInvoke: 2,
	palyra.DevicePair: 3,
}

// Examine derives the findings of a request.
func Examine(r palyra.Request) Findings {
	p := &r.Plan
	f := Findings{Workspace: r.Tool.Workspace || p.Workspace.Path != ""}
	f.Capabilities = distinct(slices.Concat(r.Tool.Capabilities, p.Capabilities))
	for _, c := range f.Capabilities {
		if c.Sensitive() {
			f.Sensitive = true
			f.add(capabilityRisk(c), string(c), "")
		}
	}
	if p.Executable.Path != "" || len(p.Argv) > 0 || len(p.Writes) > 0 || len(p.Egress) > 0 || len(p.Bindings) > 0 {
		f.Sensitive = true
	}
	f.ReadOnly = r.Tool.ReadOnly && p.ReadOnly && !f.Sensitive
	f.place(&r)
	f.reach(&r)
	f.push(&r)
	return f
}

// distinct sorts a list and leaves each thing in it once.
func distinct[T ~string](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

func capabilityRisk(c palyra.Capability) int {
	if rank, ok := capabilityRank[c]; ok {
		return rank
	}
	return 2
}

func (f *Findings) add(rank int, name, detail string) {
	f.factors = append(f.factors, factor{name, detail, rank})
}

// place looks at where the plan works.
func (f *Findings) place(r *palyra.Request) {
	p := &r.Plan
	if f.Workspace && !p.Workspace.Known {
		f.add(1, "new_workspace", p.Workspace.Path)
	}
	for _, w := range p.Writes {
		switch {
		case !filepath.IsLocal(w):
			f.Destructive = true
			f.add(3, "outside_workspace", w)
		case guarded(w) || slices.Contains(p.Guarded, w): // by its name, or where something of such a name leads
			f.Destructive = true
			f.add(3, "guarded_path", w)
		}
	}
	for _, at := range p.Reads {
		if filepath.IsAbs(at) { // outside: the agent itself reads it with its own tools
			f.add(1, "outside_read", at)
			if trusted.Secret(at) || r.Tool.Name == "hook.grep" && trusted.Gathers(at) {
				f.add(2, "secret_place", at)
			}
		}
	}
	if !p.Workspace.Known && guardedDir(p.Workspace.Path) && (len(p.Writes) > 0 || p.Executable.Path != "" || len(p.Argv) > 0) {
		f.Destructive = true // a write outside is destructive under any name
		f.add(3, "guarded_path", p.Workspace.Path)
	}
	if r.Tool.Source != palyra.SourceBuiltin {
		f.add(1, "third_party_tool", string(r.Tool.Source))
	}
	if p.Tier == palyra.TierB {
		f.add(1, "no_full_sandbox", "tier B")
	}
	if p.Tier == palyra.TierUnsandboxed {
		rank := 1 // to read, or to change files of the workspace that the plan names, and nothing else
		if f.Sensitive && !f.onlyEdits(p) {
			rank = 2
		}
		f.add(rank, "no_sandbox", "the agent runs it itself")
	}
	if p.UnixSockets {
		f.add(2, "unix_sockets", "")
	}
	if p.AgentSocket {
		f.add(2, "agent_inside", "")
	}
	if p.Asks {
		f.add(2, "opens_seals", p.Profile)
	}
	if p.Unshown {
		f.add(2, "content_not_shown", "")
	}
	if p.Lasting {
		f.add(2, "lasting", "")
	}
	if m := p.Enforcement.Mode; p.Tier == palyra.TierC && m != palyra.NetworkStrict {
		f.add(2, "network_not_enforced", string(m))
	}
	if p.Stdin == palyra.StdinLive {
		f.add(2, "stdin_live", "")
	}
}

// onlyEdits reports whether a plan does nothing but write the files that it names.
func (f *Findings) onlyEdits(p *palyra.Plan) bool {
	return len(p.Writes) > 0 && len(p.Egress)+len(p.Bindings)+len(p.Argv) == 0 && p.Executable.Path == "" &&
		!slices.ContainsFunc(f.Capabilities, func(c palyra.Capability) bool {
			return c != palyra.FilesystemWrite && c.Sensitive()
		})
}

// reach looks at what can come in and go out.
func (f *Findings) reach(r *palyra.Request) {
	p := &r.Plan
	for _, h := range distinct(slices.Clone(p.Egress)) {
		f.add(1, "egress", h)
		if private(h) { // only this machine and its neighbours are there: other services, the cloud's own keys
			f.add(3, "private_address", h)
		}
		if strings.HasPrefix(h, "*.") { // the domain's owner can invent names, and the run can encode data in them
			f.add(2, "wildcard_host", h)
		}
	}
	for _, s := range distinct(slices.Clone(p.Bindings)) {
		f.add(2, "secret", s)
	}
	sends := len(p.Egress) > 0
	for _, c := range []palyra.Capability{palyra.Network, palyra.ChannelSend, palyra.Browser, palyra.NodeInvoke} {
		sends = sends || slices.Contains(f.Capabilities, c)
	}
	held := len(p.Bindings) > 0 || slices.Contains(r.Labels, "secret-read") || slices.Contains(f.Capabilities, palyra.SecretsRead)
	if sends && held {
		f.add(3, "secret_may_leave", "")
	}
	if f.Sensitive && slices.Contains(r.Labels, "untrusted-input") {
		f.add(2, "after_untrusted_input", "")
	}
}

// push looks at what a push of git does to a repository elsewhere.
func (f *Findings) push(r *palyra.Request) {
	var g gitwire.Request
	if r.Tool.Name != palyra.ToolGitRemote || json.Unmarshal(r.Plan.Arguments, &g) != nil || len(g.Updates) == 0 {
		return
	}
	f.add(2, "push", g.Remote())
	if g.Loses() {
		f.Destructive = true
		f.add(3, "push_loses", "what others have may be lost")
	}
}

// private reports whether a host is given as an address that is not public, or as this machine by name.
func private(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(name)
	if err != nil {
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		return name == "localhost" || strings.HasSuffix(name, ".localhost")
	}
	return !publicip.Is(a.Unmap())
}

// Rank is the level as a number, which policies compare.
func (f Findings) Rank() int {
	top := 0
	for _, x := range f.factors {
		top = max(top, x.rank)
	}
	return top
}

// Names are the factors by name, as policies see them.
func (f Findings) Names() []string {
	var out []string
	for _, x := range f.factors {
		out = append(out, x.name)
	}
	return out
}

// Level is how much all of it together amounts to.
func (f Findings) Level() palyra.RiskLevel { return levels[f.Rank()] }

// Risk is the findings for people, the gravest first; of one rank those first that tell more than what the tool is for.
func (f Findings) Risk() palyra.Risk {
	r, list := palyra.Risk{Level: f.Level()}, slices.Clone(f.factors)
	slices.SortStableFunc(list, func(a, b factor) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(f.ofTool(a), f.ofTool(b)))
	})
	for _, x := range list {
		r.Factors = append(r.Factors, palyra.Clip(x.String(), 256))
	}
	return r
}

// ofTool is 1 for a factor that is only a capability.
func (f Findings) ofTool(x factor) int {
	if slices.Contains(f.Capabilities, palyra.Capability(x.name)) {
		return 1
	}
	return 0
}

// guarded reports whether a file to be written is one that other programs run or trust without asking, or lies
// below such a directory: a write there reaches beyond the work.
func guarded(p string) bool {
	_, is := trusted.Write(p)
	return is
}

// guardedDir reports whether a directory is, or is in, one whose content they trust.
func guardedDir(dir string) bool {
	_, is := trusted.Within(dir)
	return is
}

// Command adds what the words of a command tell. A program that is understood to its last word, and that the
// full sandbox holds, is as risky as its acts only: it looks, builds, or changes files of the workspace. A
// program that only looks adds no risk, nor does one that writes to a layer of its own.
func (f *Findings) Command(c palyra.Command, p palyra.Plan) {
	tame := c.Understood && p.Tier == palyra.TierC && p.Enforcement.Mode == palyra.NetworkStrict &&
		(c.Class == palyra.CommandBuild || !c.RunsCode && (c.Class == palyra.CommandReadOnly || c.Class == palyra.CommandWrite))
	staged := p.Staging.Staged() && p.Tier == palyra.TierC && p.Enforcement.Mode == palyra.NetworkStrict
	for i := range f.factors {
		switch x := &f.factors[i]; {
		case staged && (x.name == string(palyra.ProcessExec) || x.name == string(palyra.FilesystemWrite)):
			x.rank = 0 // what it does is judged before it is kept
		case !tame:
		case c.Class == palyra.CommandReadOnly && (x.name == string(palyra.ProcessExec) || x.name == string(palyra.FilesystemWrite)):
			x.rank = 0
		case x.name == string(palyra.ProcessExec):
			x.rank = 1
		}
	}
	for _, at := range c.Outside {
		f.add(1, "outside_path", at)
		if trusted.Secret(at) {
			f.add(2, "secret_place", at)
		}
	}
	if c.RunsFetched {
		f.add(2, "runs_fetched", "")
	}
	if c.Class != palyra.CommandDestructive {
		return
	}
	detail := ""
	if len(c.Why) > 0 {
		detail = c.Why[0]
	}
	f.add(3, "destructive_command", detail)
}

// Effects takes what a run did in place of what it was going to do: when it is over nothing else can happen.
func (f *Findings) Effects(e *palyra.EffectFacts) {
	if e == nil {
		return
	}
	f.factors = nil
	for _, x := range []struct {
		n    int64
		rank int
		name string
	}{
		{int64(len(e.Trusted)), 3, "trusted_names"},
		{int64(len(e.Rewound)), 2, "commits_lost"},
		{int64(len(e.Uncommitted)), 2, "edits_lost"},
		{int64(len(e.Outward)), 2, "links_outward"},
		{e.Omitted, 2, "not_all_listed"},
		{max(0, e.RemovedFiles-ManyRemoved), 2, "many_removed"},
		{max(0, e.Bytes-ManyBytes), 1, "many_bytes"},
	} {
		if x.n > 0 {
			f.add(x.rank, x.name, "")
		}
	}
}

// What a run removes and writes without anybody calling it much.
const (
	ManyRemoved = 20
	ManyBytes   = 256 << 20
)
