package proposal

import (
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/cli/exit"
)

// MaxScript is the longest script that the tool takes: it is one argument of a program.
const MaxScript = 128<<10 - 2

// checkScript refuses a command beside a script, and a script without a name.
func (o *Options) checkScript(args []string) error {
	switch {
	case o.Script == "":
		return exit.Usagef("--script needs a file, or - for stdin")
	case len(args) > 0:
		return exit.Usagef("--script and a command exclude each other")
	case o.Script == "-" && o.Terminal:
		return exit.Usagef("--script - and -t exclude each other: stdin is the script")
	}
	return nil
}

// ScriptText is a script in the form that the tool takes.
func ScriptText(raw []byte) (string, error) {
	text := string(raw)
	switch {
	case len(raw) > MaxScript:
		return "", exit.Failedf(palyra.ReasonInputTooLarge, "the script is larger than %d bytes", MaxScript).
			WithRemedy("put it into a file of the workspace and run that: palyra exec -- sh FILE")
	case strings.TrimSpace(text) == "":
		return "", exit.Failedf(palyra.ReasonMalformedInput, "the script is empty")
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return "", exit.Failedf(palyra.ReasonMalformedInput, "the script is not text in UTF-8").
			WithRemedy("put it into a file of the workspace and run that")
	}
	return text, nil
}
