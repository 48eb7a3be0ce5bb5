package hook

import (
	"strings"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/screen"
)

// maxRewritten is the longest rewritten command: it is one argument of the agent's shell, and of
// that of the sandbox.
const maxRewritten = 96 << 10

// rewritten is the command line that runs an agent's shell command through the gate: same words,
// same directory, in the sandbox.
func (h *hookCall) rewritten(o hookOptions, self, home, command string) (string, error) {
	words := []string{self, "exec"}
	if home != "" {
		words = append(words, "--home", home)
	}
	words = append(words, "--as-agent", "--no-stdin", "--workspace", h.root)
	if h.rel != "." {
		words = append(words, "--cwd", h.rel)
	}
	if h.session != "" {
		words = append(words, "--session", h.session)
	}
	if h.goesOn() {
		words = append(words, "--live")
	}
	line := screen.ShellLine(append(words, "--", o.shell, "-c", command))
	if len(line) > maxRewritten {
		return "", exit.Failedf(palyra.ReasonInputTooLarge, "the command is longer than can be passed on").
			WithRemedy("write it into a file of the workspace and run that")
	}
	return line, nil
}

// isRewritten reports whether a command line is, to the byte, one that rewriting makes: palyra exec with one command
// of the agent's, and nothing before, beside or after it.
func (h *hookCall) isRewritten(inv *invocation.Invocation, o hookOptions) bool {
	line, err := h.fields.text("command")
	self, serr := quick.Self()
	if err != nil || serr != nil {
		return false
	}
	empty, err := h.rewritten(o, self, inv.Home, "")
	if err != nil {
		return false
	}
	word, ours := strings.CutPrefix(line, strings.TrimSuffix(empty, "''"))
	inner := strings.TrimSuffix(strings.TrimPrefix(word, "'"), "'")
	for _, command := range []string{word, strings.ReplaceAll(inner, `'\''`, "'")} {
		if again, err := h.rewritten(o, self, inv.Home, command); ours && err == nil && again == line {
			return true
		}
	}
	return false
}

// goesOn reports whether the agent works on while the command runs: a server, or one that watches. The
// two are to see each other's files.
func (h *hookCall) goesOn() bool {
	return h.agent.Tools[h.Tool].GoesOn || string(h.fields["run_in_background"]) == "true"
}
