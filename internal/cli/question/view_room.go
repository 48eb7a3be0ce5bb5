package question

import (
	"encoding/json"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// script prints a shell script as lines. It is among the arguments as well, in escapes: there it is
// exact, here it can be read.
func (v *View) script() {
	if s, ok := scriptOf(v.Approval.Plan); ok {
		v.block("Script", screen.Count(int64(len(s)), "byte")+":", s)
	}
}

// scriptOf is the script that a plan runs: the one in the arguments, if the shell gets that.
func scriptOf(p palyra.Plan) (string, bool) {
	var args struct {
		Script *string `json:"script"`
	}
	if json.Unmarshal(p.Arguments, &args) != nil || args.Script == nil || len(p.Argv) != 3 || p.Argv[1] != "-c" {
		return "", false
	}
	return *args.Script, strings.TrimPrefix(p.Argv[2], "\n") == *args.Script
}

// block prints a labelled line that is already escaped and below it outside text, every line behind the gutter.
func (v *View) block(label, safe, text string) {
	v.emit(part{label: label, texts: []string{safe}, block: strings.TrimSuffix(text, "\n")})
}

// room prints what a run sees and may change beyond its workspace, and the sealed names there.
func (v *View) room() {
	p := v.Approval.Plan
	if v.Short {
		v.roomShort()
	} else {
		v.roomWhole()
	}
	if p.AgentSocket {
		v.shout("Agent", "it is an agent itself: it may call tools for as long as it runs, in this workspace and with what it starts there",
			agentInside)
	}
	for _, w := range p.AgentWithin {
		if w == palyra.AnyWorkspace {
			v.shout("Agent", "it may work in EVERY workspace that its caller reaches", everywhere)
			continue
		}
		v.shout("Agent", "it may work in "+show.Arg(w)+" too", agentAt+briefPath(w))
	}
	if p.UnixSockets {
		v.shout("Sockets", "unix sockets that it can see: programs outside the sandbox may answer there", "unix sockets")
	}
}

// roomWhole prints every mount, file and seal.
func (v *View) roomWhole() {
	p := v.Approval.Plan
	v.repository()
	label := "Mounts"
	for _, m := range p.Mounts {
		how := "read only"
		if m.Writable {
			how = "writable"
		}
		v.put(label, show.Arg(m.Source)+" at "+show.Arg(m.Target)+" ("+how+")")
		label = ""
	}
	for _, f := range p.Files {
		v.block("File", fmt.Sprintf("%s%s (read only), %s:", show.Arg(f.Target), Readable(f.Target),
			screen.Count(int64(len(f.Text)), "byte")), f.Text)
	}
	v.sealed()
}

// repository prints what the workspace is a work tree of.
func (v *View) repository() {
	p := v.Approval.Plan
	switch at := p.Workspace.Repository.Path; {
	case at == "":
	case p.Staging.Staged():
		v.put("Repository", show.Arg(at)+Readable(at)+" (outside the workspace: commits and refs, which are judged with the rest)")
	default:
		v.put("Repository", show.Arg(at)+Readable(at)+" (outside the workspace: read only)")
	}
}

// shownSeals is how many sealed names the full view lists: the usual ones are hundreds.
const shownSeals = 40

// sealed prints the sealed names of the workspace.
func (v *View) sealed() {
	p := v.Approval.Plan
	switch {
	case len(p.Seals) > 0:
		var names []string
		for i, s := range p.Seals {
			if i == shownSeals {
				names = append(names, fmt.Sprintf("and %d more (--json has them all)", len(p.Seals)-i))
				break
			}
			names = append(names, show.Arg(s))
		}
		v.put("Sealed", strings.Join(names, ", "))
	case p.Tier == palyra.TierC && !p.Staging.Staged():
		v.shout("Sealed", "nothing: it may leave hooks and settings that other programs run", unsealed)
	}
}

// hosts prints the hosts that a run may connect to.
func (v *View) hosts() {
	label, hosts := "Hosts", v.Approval.Plan.Egress
	if v.Short {
		hosts = gravestFirst(hosts, hostKind)
	}
	for _, h := range hosts {
		text, brief := show.Arg(h)+Readable(h), pinched(show.Arg(h), briefHost)
		if strings.HasPrefix(h, "*.") {
			text += " (every name that ends so" + v.bounded() + ")"
		}
		if private(h) {
			v.shout(label, text+" (not a public address)", privateHost+brief)
		} else {
			v.emit(part{label: label, texts: []string{text}, briefs: []string{brief}})
		}
		label = ""
	}
}

// bounded says how many names below a suffix the run may reach, where they are counted. The names
// themselves carry data to the owner of the domain.
func (v *View) bounded() string {
	for _, m := range v.Approval.Plan.Enforcement.Mechanisms {
		if n, ok := strings.CutPrefix(m, "wildcard_names:"); ok {
			return "; at most " + show.Arg(n) + " different ones in a run, and what it writes into them is sent"
		}
	}
	return ""
}

// roomTexts lists every text of a room.
func roomTexts(p palyra.Plan) []string {
	out := []string{p.Profile, p.Workspace.Repository.Path}
	for _, m := range p.Mounts {
		out = append(out, m.Source, m.Target)
	}
	for _, f := range p.Files {
		out = append(out, f.Target, f.Text)
	}
	return append(out, p.Seals...)
}
