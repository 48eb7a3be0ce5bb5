// Package hint explains programs that met a wall of their sandbox without knowing it.
//
// A program's own message about that is often misleading: "device busy" for a sealed path,
// "not a git repository" for one that lies outside. A hint names the probable cause. It is derived
// from the program's output, which anybody may forge, so it contains nothing but names of the plan:
// no path, no command and no host that a run could put there for somebody to follow.
package hint

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/subpath"
)

// hinted is how much of the last output is examined.
const hinted = 16 << 10

// Explain explains a program that failed by itself; nil: there is nothing to say. masked are the paths of files that the
// run found as copies, and show says how they are not.
func Explain(p palyra.Plan, res *palyra.Result, masked []string, show string) *palyra.Error {
	if res.ExitCode == 0 || res.Signal != "" || p.Tier != palyra.TierC {
		return nil
	}
	said := res.Stderr
	if p.Terminal {
		said = res.Stdout
	}
	said = said[max(0, len(said)-hinted):]
	if namesMasked(said, masked) {
		return maskedHint(show)
	}
	if h := atWall(p, said); h != nil {
		return h
	}
	if len(masked) > 0 && hasWords(string(said), busyWords) { // programs rename to it, and name what they rename
		return maskedHint(show)
	}
	return nil
}

// namesMasked reports whether a line says that a masked file cannot be changed.
func namesMasked(said []byte, masked []string) bool {
	for line := range bytes.Lines(said) {
		text := string(line)
		if (hasWords(text, busyWords) || hasWords(text, fixedWords)) &&
			slices.ContainsFunc(masked, func(rel string) bool { return names(text, path.Base(rel)) }) {
			return true
		}
	}
	return false
}

// maskedHint names no file: the program's own words led here.
func maskedHint(show string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
		"files like .env are shown as copies with placeholders for secret values, which cannot be changed, moved or "+
			"removed here, and neither can the directories that they are in").
		WithRemedy("change them yourself, outside the sandbox; %s", show)
}

// atWall explains a wall that the plan names.
func atWall(p palyra.Plan, said []byte) *palyra.Error {
	var outside *palyra.Error
	for line := range bytes.Lines(said) {
		text := string(line)
		busy, fixed := hasWords(text, busyWords), hasWords(text, fixedWords)
		if name := sealedIn(p.Seals, text); name != "" && (busy || fixed) {
			return sealedHint(name)
		}
		if at := p.Workspace.Repository.Path; at != "" && p.Staging.Staged() && (busy || fixed) && strings.Contains(text, at) {
			return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
				"in the repository outside the workspace configuration, hooks, info and what other work trees have stay as they are").
				WithRemedy("change it yourself, outside the sandbox")
		}
		switch {
		case outside != nil:
		case fixed:
			outside = palyra.Errorf(palyra.Denied, palyra.ReasonPathOutside, "it seems to have written to a path that is read-only in its sandbox").
				WithRemedy("have it write below the workspace, $HOME or $TMPDIR")
		case p.Staging.Staged() && hasWords(text, layerWords):
			outside = palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "it seems to have renamed a directory of the workspace, "+
				"or written to a file of another owner, which cannot be done on a layer of its own").
				WithRemedy("have it copy and remove (mv does), or run it with --live, which writes to the workspace directly")
		case lostRepository(p.Workspace.Path, text):
			outside = palyra.Errorf(palyra.Denied, palyra.ReasonPathOutside,
				"this seems to be a linked worktree or a submodule, whose repository lies outside the workspace").
				WithRemedy("if you made it, register it ('palyra workspace add DIR', once more where its repository has changed): runs may then " +
					"commit there; or register the main repository and have the worktree inside it ('git worktree add inner' there makes one): " +
					"'git worktree list', outside the sandbox, says where it is")
		}
	}
	return outside
}

// The usual messages of C libraries, Go and Node.
var (
	busyWords  = []string{"resource busy", "EBUSY"}
	fixedWords = []string{"read-only file system", "EROFS"}
	layerWords = []string{"cross-device link", "EXDEV", "value too large for defined data type", "EOVERFLOW"}
)

func hasWords(line string, words []string) bool {
	low := strings.ToLower(line)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(low, strings.ToLower(w)) })
}

// sealedHint names the sealed path, and how it can be changed.
func sealedHint(name string) *palyra.Error {
	e := palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied, "%s is sealed: it stays as it is", name)
	if name == ".git" || strings.HasPrefix(name, ".git/") {
		return e.WithRemedy("change it yourself, outside the sandbox; what init, clone and remote need can be changed with --profile " +
			"git-setup, which asks every time")
	}
	return e.WithRemedy("change it yourself, outside the sandbox, or with a profile that unseals it")
}

// sealedIn is the longest sealed name that a line contains whole; "": none. Names with wildcards
// are passed over: the program would choose what stands for them.
func sealedIn(seals []string, line string) (longest string) {
	for _, s := range seals {
		name := strings.TrimSuffix(s, "/")
		if len(name) > len(longest) && !strings.ContainsAny(name, "*?[<") && names(line, name) {
			longest = name
		}
	}
	return longest
}

// names reports whether a line has a path that is name, ends with it, or lies in it.
func names(line, name string) bool {
	if name == "" {
		return false
	}
	for at := 0; ; {
		i := strings.Index(line[at:], name)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(name)
		before := start == 0 || !partOfName(line[start-1])
		after := end == len(line) || !partOfName(line[end]) || (line[end] == '.' && (end+1 == len(line) || !partOfName(line[end+1])))
		if before && after {
			return true
		}
		at = start + 1
	}
}

// partOfName reports whether c continues a file's name. Bytes of other scripts than Latin do.
func partOfName(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// lostRepository reports whether a .git file led git to a repository that it cannot see because it
// lies outside of the workspace.
func lostRepository(workspace, line string) bool {
	_, dir, found := strings.Cut(line, "not a git repository: ")
	dir = strings.TrimRight(dir, "\r\n")
	return found && path.IsAbs(dir) && !subpath.Within(workspace, path.Clean(dir))
}
