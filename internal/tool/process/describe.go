package process

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/hostport"
	"palyra/internal/show"
)

// describe writes the text for people. All of it follows from the plan, with the notes made while resolving. For a
// call that is only checked it mentions nothing that a sandbox would enforce: the agent runs it without one.
func (d *Driver) describe(a arguments, p *palyra.Plan, checked bool) {
	input, err := d.Stdin(*p)
	if err != nil { // the digest is of these very bytes
		input = nil
	}
	verb := "run "
	if p.Background() {
		verb = "start in the background "
	}
	p.Detail.Summary = verb + commandLine(p.Argv, input)
	if a.Script != nil {
		p.Detail.Summary = verb + "script " + strconv.Quote(show.Shorten(*a.Script, summaryLength)) + fed(input)
	}
	notes := []string{"other files that it reads than the inputs listed are not bound"}
	if !checked {
		notes = append([]string{"may change any file of the workspace; which ones is not known beforehand (not bound)"}, notes...)
	}
	if a.Script != nil {
		by, _ := a.command()
		notes = append(notes, fmt.Sprintf("the script has %s and is run by %s: %s", show.Bytes(len(*a.Script)),
			show.Line(strings.TrimPrefix(by, "/bin/")), strconv.Quote(show.Shorten(*a.Script, inputInNote))))
	}
	if len(input) > 0 {
		notes = append(notes, stdinText(input))
		p.Unshown = a.StdinB64 != nil && show.Opaque(input)
	}
	if p.Stdin == palyra.StdinLive {
		notes = append(notes, "its input comes while it runs (stdin: live) and is not bound")
	}
	if checked {
		p.Detail.Notes = append(notes, p.Detail.Notes...)
		return
	}
	if p.Background() {
		notes = append(notes, "goes on when this call is answered, until it is stopped, its session ends or 24 hours are over")
	}
	if len(p.Publish) > 0 {
		notes = append(notes, "publishes ports of this machine, at 127.0.0.1 only (HOST:INSIDE): "+fewNames(p.Publish)+
			"; every user of this machine and every call of the session can connect there"+ownInside(p.Publish))
		p.Detail.Summary += ", publishing " + fewNames(p.Publish)
	}
	if p.Executable.Sealed {
		notes = append(notes, "the run itself could change "+show.Line(p.Executable.Path)+": a sealed copy of it is run"+
			sealedCopyWarning(p.Tier))
	}
	notes = append(notes, whereTo(p)...)
	if p.Workspace.Owner == 0 {
		notes = append(notes, "runs as root, without capabilities: the workspace is root's")
	}
	notes = append(notes, surroundings(p)...)
	notes = append(notes, p.Detail.Notes...)
	p.Detail.Notes = append(notes, loose(p.Enforcement.Limits)...)
}

// ownInside says of ports that have another number inside that there the process finds itself, not one of its session
// that publishes that number.
func ownInside(publish []string) string {
	var inside []string
	ports, _ := hostport.ParseAll(publish) // they were written from pairs
	for _, at := range ports {
		if at.Host != at.Inside {
			inside = append(inside, fmt.Sprintf("localhost:%d", at.Inside))
		}
	}
	if len(inside) == 0 {
		return ""
	}
	return "; inside, " + fewNames(inside) + " is its own, whatever else the session publishes"
}

// sealedCopyWarning warns where a sealed script runs from another path: in a room the copy covers the file itself.
func sealedCopyWarning(t palyra.Tier) string {
	if t == palyra.TierC {
		return ""
	}
	return " (a script then does not find what lies beside it: sh FILE would)"
}

// loose names the limits that the kernel does not enforce.
func loose(limits map[string]palyra.Hold) []string {
	var notes []string
	for _, limit := range slices.Sorted(maps.Keys(limits)) {
		switch limits[limit] {
		case palyra.HoldPolled:
			notes = append(notes, limit+" is polled, not enforced by the kernel")
		case palyra.HoldNone:
			notes = append(notes, limit+" is not limited")
		}
	}
	return notes
}

const shownNames = 8 // of a list in one note

// surroundings lists what a run in tier C sees and reaches.
func surroundings(p *palyra.Plan) []string {
	if p.Tier != palyra.TierC {
		return nil
	}
	var notes []string
	say := func(what string, names []string) {
		if len(names) > 0 {
			notes = append(notes, what+fewNames(names))
		}
	}
	if p.Profile != "" {
		notes = append(notes, "profile "+show.Line(p.Profile))
	}
	var sees, keeps []string
	for _, m := range p.Mounts {
		if m.Writable {
			keeps = append(keeps, show.Line(m.Target))
		} else {
			sees = append(sees, show.Line(m.Source)+atTarget(m))
		}
	}
	say("sees, read only: ", sees)
	say("keeps between runs of this workspace: ", keeps)
	notes = append(notes, aroundRepository(p)...)
	say("may reach: ", p.Egress)
	say("what is sealed stays as it is, at any depth: ", p.Seals)
	if len(p.Seals) == 0 && !p.Staging.Staged() {
		notes = append(notes, "nothing of the workspace is sealed: it may leave hooks and settings that others run")
	}
	if p.UnixSockets {
		notes = append(notes, "may use unix sockets that it can see")
	}
	if p.Asks {
		notes = append(notes, "the profile wants an answer for every run")
	}
	return notes
}

// aroundRepository says what a run may do to a repository outside, of which its workspace is a work tree.
func aroundRepository(p *palyra.Plan) []string {
	at := show.Line(p.Workspace.Repository.Path)
	switch {
	case p.Workspace.Repository.Path == "":
		return nil
	case p.Staging.Staged():
		return []string{"works on the repository " + at + ", of which the workspace is a work tree: commits, refs and logs there are judged " +
			"with the rest, and its configuration, hooks and info stay as they are"}
	}
	return []string{"sees the repository " + at + ", of which the workspace is a work tree, read only: " +
		"a run that writes directly cannot commit there"}
}

func atTarget(m palyra.Mount) string {
	if m.Target == m.Source {
		return ""
	}
	return " at " + show.Line(m.Target)
}

// fewNames is the beginning of a list, with the number of further names.
func fewNames(names []string) string {
	if n := len(names) - shownNames; n > 1 {
		return strings.Join(names[:shownNames], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}
