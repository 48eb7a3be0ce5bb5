package gitfile

import (
	"bytes"
	"slices"
	"strings"
)

// StateDirs are the directories of a repository in which git keeps what it is in
// the middle of, and goes on with when somebody says --continue.
var StateDirs = []string{"rebase-merge", "rebase-apply", "sequencer"}

// StateFiles are the files in them that can make git run a program.
var StateFiles = []string{"git-rebase-todo", "git-rebase-todo.backup", "todo", "strategy", "opts", "author-script"}

// steps are the commands of a list of things to do that run no program.
var steps = []string{
	"pick", "p", "reword", "r", "edit", "e", "squash", "s", "fixup", "f", "drop", "d", "label", "l", "reset", "t", "merge", "m",
	"break", "b", "noop", "update-ref", "u", "revert",
}

// strategies are git's own; another is a program called git-merge-NAME.
var strategies = []string{"ort", "recursive", "resolve", "octopus", "ours", "subtree"}

// Harmless reports whether a state file makes git run nothing but git. before is what the same files had when
// somebody trusted was the last to write them: a program that they name there may be named as often again.
func Harmless(name string, text []byte, before [][]byte) bool {
	switch name {
	case "git-rebase-todo", "git-rebase-todo.backup", "todo":
		return harmlessList(text, before)
	case "strategy":
		return slices.Contains(strategies, strings.TrimSpace(string(text)))
	case "opts":
		return harmlessOptions(text)
	case "author-script":
		return harmlessAuthor(text)
	}
	return true
}

// harmlessList looks at a list of things to do, line by line.
func harmlessList(text []byte, before [][]byte) bool {
	may := map[string]int{}
	for _, b := range before {
		lines := map[string]int{}
		for line := range bytes.Lines(b) {
			lines[string(bytes.TrimSpace(line))]++
		}
		for line, n := range lines {
			may[line] = max(may[line], n)
		}
	}
	for line := range bytes.Lines(text) {
		trimmed := string(bytes.TrimSpace(line))
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		word := trimmed
		if i := strings.IndexAny(trimmed, " \t\r\v\f"); i >= 0 {
			word = trimmed[:i]
		}
		if slices.Contains(steps, word) {
			continue
		}
		if may[trimmed]--; may[trimmed] < 0 {
			return false
		}
	}
	return true
}

// harmlessOptions looks at the options of a sequence of picks.
func harmlessOptions(text []byte) bool {
	set, err := Config(text)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(set, func(s Setting) bool {
		return s.Section == "options" && s.Key == "strategy" && !slices.Contains(strategies, s.Value)
	})
}

// harmlessAuthor looks at what older versions of git gave to a shell.
func harmlessAuthor(text []byte) bool {
	for line := range bytes.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSuffix(string(line), "\n"), "=")
		if name == "" && !found {
			continue
		}
		switch name {
		case "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE":
		default:
			return false
		}
		if !singleQuoted(value) {
			return false
		}
	}
	return true
}

// singleQuoted reports whether a shell reads s as one quoted word.
func singleQuoted(s string) bool {
	if len(s) < 2 || s[0] != '\'' || s[len(s)-1] != '\'' {
		return false
	}
	rest := strings.ReplaceAll(s[1:len(s)-1], `'\''`, "")
	return !strings.Contains(strings.ReplaceAll(rest, `'\!'`, ""), "'")
}
