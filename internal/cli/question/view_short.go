package question

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
	"palyra/internal/subpath"
)

// The short view is for the person who is asked: the command, where it runs, what it may change and reach, what
// is unusual, and the risk. Long lists of usual things are counted, and a line names what was left out and how to
// see it. Where twelve lines are too few for the rest, view_fit.go folds it: every warning keeps at least its short
// words, a list its gravest entries, and a command its ends.

// leave notes that n things of a kind are not shown.
func (v *View) leave(n int, one, many string) {
	switch {
	case n == 1:
		v.left = append(v.left, "1 "+one)
	case n > 1:
		v.left = append(v.left, fmt.Sprintf("%d %s", n, many))
	}
}

// details prints what was left out.
func (v *View) details() {
	if len(v.left) > 0 {
		v.emit(v.leftPart())
	}
}

// leftPart names what is not shown, and how to see it.
func (v *View) leftPart() part {
	if v.Pane > 0 {
		return part{label: notShown, texts: v.left, tail: "; f shows all", briefTail: "; f"}
	}
	return part{label: notShown, texts: v.left, tail: "; see " + v.showAllHint(), briefTail: "; see approvals show --full"}
}

// spoken reports whether the view shows every argument of the call elsewhere: it does for a
// program, except its stdin.
func spoken(p palyra.Plan) bool {
	var args map[string]json.RawMessage
	if p.Executable.Path == "" || json.Unmarshal(p.Arguments, &args) != nil {
		return false
	}
	known := []string{
		"command", "args", "cwd", "env", "stdin_live", "terminal", "tier", "profile", "egress", "script", "require_limits",
		"live", "agent_socket", "agent_within", "limits", "timeout_ms",
	}
	for name := range args {
		if !slices.Contains(known, name) {
			return false
		}
	}
	return true
}

// shownByDiff are the arguments of the file tools that their diff, notes and summary show.
var shownByDiff = map[palyra.ToolName][]string{
	palyra.ToolFileWrite: {"path", "content", "content_b64", "mode", "make_dirs", "executable"},
	palyra.ToolFileEdit:  {"path", "old_string", "new_string", "replace_all"},
	palyra.ToolFilePatch: {"patch"},
}

// written reports whether the diff, the notes and the summary show every argument of a call that writes one file.
func (v *View) written() bool {
	a := v.Approval
	var args map[string]json.RawMessage
	if a.LeftOut != nil || a.Prompt.Diff == "" || unshown(a) || !v.oneWrite() || json.Unmarshal(a.Plan.Arguments, &args) != nil {
		return false
	}
	for name := range args {
		if !slices.Contains(shownByDiff[a.Plan.Tool], name) {
			return false
		}
	}
	return len(args) > 0 && a.Plan.Source == palyra.SourceBuiltin
}

// oneWrite reports whether a plan writes one file, which the summary names.
func (v *View) oneWrite() bool {
	w := v.Approval.Plan.Writes
	if len(w) != 1 || show.Arg(w[0]) != w[0] {
		return false
	}
	return slices.Contains(strings.Fields(strings.ReplaceAll(v.Approval.Prompt.Summary, ",", "")), w[0])
}

// sealedWords are the sealed names of the workspace that occur in the words of a command.
func sealedWords(p palyra.Plan) []string {
	if len(p.Argv) == 0 {
		return nil
	}
	apart := func(r rune) bool { return strings.ContainsRune(" \t\n'\"=<>|&;()$`", r) }
	var words []string
	for _, w := range strings.FieldsFunc(strings.Join(p.Argv[1:], " "), apart) {
		if outside := strings.HasPrefix(w, "~") || path.IsAbs(w) && !subpath.Within(p.Workspace.Path, path.Clean(w)); !outside {
			words = append(words, strings.Split(w, "/")...)
		}
	}
	var out []string
	for _, s := range p.Seals {
		if slices.Contains(words, s) {
			out = append(out, show.Arg(s))
		}
	}
	return out
}

// command prints argv on one line, on which no two commands look the same. A script is printed
// below, as lines.
func (v *View) command() {
	p := v.Approval.Plan
	if len(p.Argv) == 0 {
		return
	}
	if s, ok := scriptOf(p); ok {
		v.block("Command", show.Argv(p.Argv[:2])+" and the script, "+screen.Count(int64(len(s)), "byte")+":", s)
		return
	}
	v.put("Command", show.Argv(p.Argv))
	for i, arg := range p.Argv {
		if text := Readable(arg); text != "" {
			v.put("", fmt.Sprintf("argument %d%s", i, text))
		}
	}
}

// variablesShort prints the variables that the call itself sets, and secrets; of the profile's only the names.
func (v *View) variablesShort() {
	p := v.Approval.Plan
	var args struct {
		Env map[string]string `json:"env"`
	}
	if p.Profile == "" && p.Tier != palyra.TierUnsandboxed || json.Unmarshal(p.Arguments, &args) != nil {
		v.variables(p.Env)
		return
	}
	var own []palyra.EnvVar
	names := 0
	for _, e := range p.Env {
		if _, asked := args.Env[e.Name]; asked || e.Secret {
			own = append(own, e)
		} else {
			names++
		}
	}
	v.variables(own)
	if p.Tier != palyra.TierUnsandboxed { // there it has the agent's own environment
		v.leave(names, "variable", "variables")
	}
}

// programShort prints the file of a program, unless its name tells it: a program of the system that
// is called by its name is the one that people expect.
func (v *View) programShort() {
	p := v.Approval.Plan
	dir, base := path.Split(p.Executable.Path)
	named := len(p.Argv) > 0 && (p.Argv[0] == base || p.Argv[0] == p.Executable.Path ||
		(p.Argv[0] == "sh" || p.Argv[0] == "/bin/sh") && slices.Contains([]string{"dash", "bash", "busybox"}, base)) // whichever is the system's
	expected := named && slices.Contains([]string{"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"}, dir)
	if expected {
		v.leave(1, "path and digest of the program", "")
		return
	}
	v.put("Program", show.Arg(p.Executable.Path)+Readable(p.Executable.Path))
	v.leave(1, "digest of the program", "")
}

// inputsShort prints the paths of the files that the plan binds.
func (v *View) inputsShort() {
	const shown = 8
	var names []string
	for _, in := range v.Approval.Plan.Inputs {
		if v.written() && in.Path == v.Approval.Plan.Writes[0] {
			continue // the summary says whether it exists
		}
		name := show.Arg(in.Path) + Readable(in.Path)
		if in.Digest == "" {
			name += " (does not exist)"
		}
		names = append(names, name)
	}
	if n := len(names) - shown; n > 0 {
		v.leave(n, "input file", "input files")
		names = append(names[:shown], fmt.Sprintf("and %d more", n))
	}
	if len(names) > 0 {
		v.put("Input files", strings.Join(names, ", "))
	}
}

// roomShort prints what a run sees beyond its workspace. It may write only its own caches there,
// whatever the plan says: the sandbox refuses anything else.
func (v *View) roomShort() {
	p := v.Approval.Plan
	v.repository()
	label, caches := "Mounts", 0
	for _, m := range p.Mounts {
		switch {
		case m.Writable:
			caches++
			continue
		case m.Source == m.Target:
			v.put(label, show.Arg(m.Source)+" (read only)")
		default:
			v.put(label, show.Arg(m.Source)+" at "+show.Arg(m.Target)+" (read only)")
		}
		label = ""
	}
	v.leave(caches, "writable cache", "writable caches")
	v.leave(len(p.Files), "generated file", "generated files")
	if len(p.Seals) <= 6 {
		v.sealed()
	} else {
		v.leave(len(p.Seals), "sealed name", "sealed names")
	}
	if named := sealedWords(p); len(named) > 0 {
		v.put("Sealed", strings.Join(named, ", ")+": stays as it is whatever you answer; what it makes there goes to the quarantine when it ends")
		v.put("", "to have it written: palyra.fs.write, which asks about the content; or the profile git-setup for .git")
	}
}

// opened are mechanisms that open something instead of confining.
var opened = map[string]notice{
	"host_network": {
		"the machine's own services and private addresses are open to it (egress.host_network)",
		"the machine's network is open",
	},
	"private_ranges": {"private addresses are open to it (egress.private_ranges)", "private addresses are open"},
	"root_workspace": {"it runs as root, without capabilities: the workspace is root's", "runs as root"},
}

// mechanisms counts the mechanisms that confine a run, and names those that do not.
func (v *View) mechanisms(list []string) {
	held := 0
	for _, m := range list {
		if n, is := opened[m]; is {
			v.shout("", n.text, n.short)
		} else {
			held++
		}
	}
	v.leave(held, "mechanism", "mechanisms")
}

// private reports whether a host of a plan is an address that is not public.
func private(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	a = a.Unmap()
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast()
}

// repeatsShort reports whether a note only repeats the short view. Only notes about a program can:
// in others, words of the proposer may be at either end.
func (v *View) repeatsShort(note string) bool {
	p := v.Approval.Plan
	if note == palyra.UnsandboxedNote && p.Tier == palyra.TierUnsandboxed {
		return true
	}
	if v.written() {
		w := p.Writes[0]
		return note == "creates "+w+" with mode 0644" || strings.HasPrefix(note, "overwrites "+w+" (")
	}
	if p.Executable.Path == "" {
		return false
	}
	for prefix, shown := range map[string]bool{
		"what is sealed stays as it is": len(p.Seals) > 0, "the run itself could change ": p.Executable.Sealed,
		"may reach: ": len(p.Egress) > 0, "the script has ": len(p.Argv) > 0,
		"other files that it reads than the inputs listed are not bound": len(p.Inputs) == 0,
		"git knows no name and address of yours: ":                       true, // nothing that an answer would be about
		"may change any file of the workspace; which ones is not known ": p.Staging.Staged(),
		"writes to a layer of its own; what it changes is judged when ":  p.Staging.Staged(),
		"keeps between runs of this workspace: ": slices.ContainsFunc(p.Mounts,
			func(m palyra.Mount) bool { return m.Writable }),
	} {
		if shown && strings.HasPrefix(note, prefix) {
			return true
		}
	}
	if limit, polled := strings.CutSuffix(note, " is polled, not enforced by the kernel"); polled &&
		p.Enforcement.Limits[limit] == palyra.HoldPolled {
		return true
	}
	limit, loose := strings.CutSuffix(note, " is not limited")
	return note == "profile "+p.Profile || loose && p.Enforcement.Limits[limit] == palyra.HoldNone
}
