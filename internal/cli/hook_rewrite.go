package cli

import (
	"strings"

	"palyra"
	"palyra/internal/cli/exit"
)

// maxRewritten bounds a rewritten command: it is one argument of the agent's shell,
// and of that of the sandbox.
const maxRewritten = 96 << 10

// shellWord quotes one word so that every POSIX shell reads it back as it is.
// Between single quotes nothing has a meaning but the quote itself.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:=", r)
	}) && s[0] != '=' { // zsh looks up the program of a word that begins so
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shellLine joins words to a line that a shell takes apart again into them.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

// rewritten is the command line that runs an agent's shell command through the
// gate: same words, same directory, in the sandbox.
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
	line := shellLine(append(words, "--", o.shell, "-c", command))
	if len(line) > maxRewritten {
		return "", exit.Failedf(palyra.ReasonInputTooLarge, "the command is longer than can be passed on").
			WithRemedy("write it into a file of the workspace and run that")
	}
	return line, nil
}
