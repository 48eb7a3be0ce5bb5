package gitfile

import "strings"

// Reference is a place that a configuration has git look at, or a word of a command that it has git run.
type Reference struct {
	Path    string
	Include bool // relative to the configuration's own directory; others to the work tree's top
	Hooks   bool // a directory of hooks
}

// commands are keys whose values git gives to a shell or runs.
var commands = map[string]bool{
	"core.fsmonitor": true, "core.sshcommand": true, "core.editor": true, "core.pager": true, "core.askpass": true, "core.gitproxy": true,
	"core.alternaterefscommand": true,
	"sequence.editor":           true, "gpg.program": true, "diff.external": true, "interactive.difffilter": true,
	"uploadpack.packobjectshook": true,
	"credential.helper":          true, "web.browser": true, "sendemail.smtpserver": true, "sendemail.tocmd": true, "sendemail.cccmd": true,
}

// ends are the keys of the same kind that stand in a section with a name of its own.
var ends = map[string]bool{
	"diff.command": true, "diff.textconv": true, "filter.clean": true, "filter.smudge": true, "filter.process": true, "merge.driver": true,
	"merge.command": true,
	"gpg.program":   true, "credential.helper": true, "difftool.cmd": true, "difftool.path": true, "mergetool.cmd": true,
	"mergetool.path": true, "pager": true,
	"man.cmd": true, "man.path": true, "browser.cmd": true, "browser.path": true, "remote.uploadpack": true, "remote.receivepack": true,
	"trailer.command": true, "trailer.cmd": true, "submodule.update": true, "hook.command": true, "tar.command": true,
}

// References are the places in a configuration that programs come from. Aliases are
// not: whoever uses one runs it by hand.
func References(set []Setting) []Reference {
	var out []Reference
	for _, s := range set {
		key := s.Section + "." + s.Key
		switch {
		case (s.Section == "include" || s.Section == "includeif") && s.Key == "path":
			out = append(out, Reference{Path: s.Value, Include: true})
		case key == "core.hookspath":
			out = append(out, Reference{Path: s.Value, Hooks: true})
		case key == "core.attributesfile":
			out = append(out, Reference{Path: s.Value})
		case s.Sub == "" && commands[key], s.Sub != "" && ends[key], s.Section == "pager":
			for _, w := range words(s.Value) {
				out = append(out, Reference{Path: w})
			}
		}
	}
	return out
}

// words are those of a command that can be files: with a slash in them.
func words(command string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(strings.TrimPrefix(command, "!"),
		func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>()'\"`=$", r) }) {
		if strings.Contains(w, "/") && !strings.Contains(w, "://") {
			out = append(out, w)
		}
	}
	return out
}

// HookNames are the hooks that git runs.
var HookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update",
	"reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman",
	"post-index-change",
	"p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit",
}
