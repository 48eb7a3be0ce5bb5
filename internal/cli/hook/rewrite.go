package hook

import (
	"palyra"
	"palyra/internal/cli/exit"
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

// goesOn reports whether the agent works on while the command runs: a server, or one that watches. The
// two are to see each other's files.
func (h *hookCall) goesOn() bool {
	return h.tool == "Monitor" || string(h.input["run_in_background"]) == "true"
}
