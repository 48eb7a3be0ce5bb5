package approval

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/subpath"
	"palyra/internal/trusted"
)

// editTools are the tools that only make and change files, by where they run: a yes to go on editing holds
// for all of them. A yes for ours does not hold for the agent's own, which run in no sandbox: the tier of the
// terms keeps them apart.
var editTools = map[palyra.Tier][]palyra.ToolName{
	palyra.TierBuiltin:     {palyra.ToolFilePatch, palyra.ToolFileEdit, palyra.ToolFileWrite},
	palyra.TierUnsandboxed: {"hook.edit", "hook.multiedit", "hook.notebookedit", "hook.write", palyra.ToolFileWrite},
}

// readTools are the agent's own that read what their one path names, and nothing below it.
var readTools = []palyra.ToolName{"hook.ls", "hook.notebookread", "hook.read"}

// offers lists the generalisations the approver may pick.
func offers(p palyra.Plan, n palyra.Need) []palyra.Widening {
	list := []palyra.Widening{{Name: palyra.WidenExact, Label: "this exact plan"}}
	if n.Fresh {
		return list
	}
	if root, ok := pathRoot(p); ok {
		if root != wholeWorkspace {
			list = append(list, palyra.Widening{Name: palyra.WidenPathRoot, Label: fmt.Sprintf("any edit of files under %s/", show.Controls(root))})
		} else {
			list = append(list, palyra.Widening{
				Name:  palyra.WidenPathRoot,
				Label: "any edit of files in the workspace, because the file is at its top",
			})
		}
		list = append(list, palyra.Widening{Name: palyra.WidenWorkspace, Label: "any edit of files in " + show.Controls(p.Workspace.Path)})
	}
	if root, ok := readRoot(p); ok {
		list = append(list, palyra.Widening{Name: palyra.WidenReadRoot, Label: fmt.Sprintf("reading any file under %s/",
			strings.TrimSuffix(show.Controls(root), "/"))})
	}
	return list
}

// Exceptions are what the wider answers never cover, in words.
const (
	editExceptions = "no names that other programs obey (.envrc, .git, settings of CI, editors and the like), no other hidden names, " +
		"nothing outside, no removal, nothing riskier"
	readExceptions = "no writing, no hidden names, no known places of secrets, nothing riskier"
)

// termsFor returns the terms of a generalisation that was offered.
func (d *Desk) termsFor(a palyra.Approval, g extent) (palyra.Terms, bool) {
	t, ok := exactTerms(a), true
	switch widen := g.widen; widen {
	case "", palyra.WidenExact:
		return t, true
	case palyra.WidenPathRoot, palyra.WidenWorkspace:
		if t.PathRoot, ok = pathRoot(a.Plan); widen == palyra.WidenWorkspace {
			t.PathRoot = wholeWorkspace
		}
		t.Tools = slices.Clone(editTools[a.Plan.Tier])
	case palyra.WidenReadRoot:
		t.ReadRoot, ok = readRoot(a.Plan)
		t.Tools = slices.Clone(readTools)
	case palyra.WidenHost:
		t.Pages, ok = true, fetchesPage(a.Plan)
	case palyra.WidenBranch, palyra.WidenRemote, palyra.WidenPush:
		ok = keyTerms(&t, a.Plan, widen)
	default:
		return d.groupTerms(a, g)
	}
	t.PlanDigest = ""
	return t, ok
}

// widenRank orders generalisations by reach; an unknown one reaches least. Those of
// reads, of writes and of hosts are never offered together.
func widenRank(widen string) int {
	if isGroup(widen) {
		widen = palyra.WidenGroup
	}
	return slices.Index([]string{
		palyra.WidenExact, palyra.WidenPathRoot, palyra.WidenReadRoot, palyra.WidenHost, palyra.WidenBranch, palyra.WidenRemote,
		palyra.WidenPush, palyra.WidenGroup,
		palyra.WidenWorkspace,
	}, widen)
}

// inRoot reports whether widened terms permit a plan.
func inRoot(t palyra.Terms, p palyra.Plan) bool {
	switch {
	case t.PathRoot != "" && t.ReadRoot == "":
		return plainWrite(p) && allUnder(t.PathRoot, p)
	case t.ReadRoot != "" && t.PathRoot == "":
		return plainRead(p) && readable(t.ReadRoot, p.Reads[0])
	}
	return false
}

// onlyFileAccess reports whether a plan only touches files by name, with some of the capabilities given.
func onlyFileAccess(p palyra.Plan, some ...palyra.Capability) bool {
	return !p.Unshown && !p.Lasting && len(p.Capabilities) > 0 &&
		!slices.ContainsFunc(p.Capabilities, func(c palyra.Capability) bool { return !slices.Contains(some, c) }) &&
		p.Executable.Path == "" && p.Stdin == "" && p.Profile == "" &&
		len(p.Argv)+len(p.Env)+len(p.Mounts)+len(p.Egress)+len(p.Bindings)+len(p.Removes)+len(p.Guarded) == 0
}

// sourceOf is where a tool of that name comes from.
func sourceOf(tool palyra.ToolName) palyra.Source {
	if strings.HasPrefix(string(tool), "hook.") {
		return palyra.SourceAgent
	}
	return palyra.SourceBuiltin
}

// plainWrite reports whether a plan only makes and changes files with a known tool: only then does a
// directory say all about it. A plan that removes a file, or writes something that nobody could be shown, is
// asked about each time.
func plainWrite(p palyra.Plan) bool {
	return onlyFileAccess(p, palyra.FilesystemWrite, palyra.FilesystemRead) && slices.Contains(editTools[p.Tier], p.Tool) &&
		p.Source == sourceOf(p.Tool) &&
		p.Workspace.Path != "" && len(p.Writes) > 0 && slices.Contains(p.Capabilities, palyra.FilesystemWrite)
}

// plainRead reports whether a plan only lets the agent read at one path outside of its workspace.
func plainRead(p palyra.Plan) bool {
	return onlyFileAccess(p, palyra.FilesystemRead) && p.Tier == palyra.TierUnsandboxed && slices.Contains(readTools, p.Tool) &&
		p.Source == sourceOf(p.Tool) &&
		len(p.Writes) == 0 && len(p.Reads) == 1
}

// wholeWorkspace is the root that holds every path of it.
const wholeWorkspace = "."

// pathRoot returns the directory that holds all writes of a plain write. Hidden
// directories (.git, .github, …) are never offered: what is written there runs later.
func pathRoot(p palyra.Plan) (string, bool) {
	if !plainWrite(p) {
		return "", false
	}
	root := path.Dir(p.Writes[0])
	for _, w := range p.Writes[1:] {
		for root != wholeWorkspace && root != "/" && !subpath.Below(root, w) {
			root = path.Dir(root)
		}
	}
	return root, trusted.Local(root) && !(root != wholeWorkspace && trusted.Hidden(root)) && allUnder(root, p)
}

// allUnder reports whether every path of the plan lies under root, and none is one that a directory's answer
// never covers.
func allUnder(root string, p palyra.Plan) bool {
	for _, f := range slices.Concat(p.Writes, p.Reads) {
		below, ok := subpath.Rel(root, f)
		if _, obeyed := trusted.Write(f); !ok || obeyed || !trusted.Local(f) || below == "." || trusted.Hidden(below) {
			return false
		}
	}
	return true
}

// readRoot returns the directory of a plain read, where an answer for all of it says
// something: not for the root of the file system nor what stands for more than files.
func readRoot(p palyra.Plan) (string, bool) {
	if !plainRead(p) {
		return "", false
	}
	root := p.Reads[0]
	if p.Tool != "hook.ls" {
		root = path.Dir(root)
	}
	return root, root != "/" && readable(root, p.Reads[0])
}

// readable reports whether a path outside is at or under root by names alone, without
// hidden ones on the way, and in no known place of secrets.
func readable(root, p string) bool {
	if !path.IsAbs(root) || path.Clean(root) != root || path.Clean(p) != p || trusted.Secret(root) || trusted.Secret(p) {
		return false
	}
	below, ok := subpath.Rel(root, p)
	return ok && (below == "." || !trusted.Hidden(below)) && !strings.ContainsAny(p, "\x00")
}
