package cli

import (
	"context"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/client"
)

// maxShellScript is the longest script that the tool takes: it is one argument
// of a program.
const maxShellScript = 128<<10 - 2

// checkScript refuses a command beside a script, and a script without a name.
func (o *execOptions) checkScript(args []string) error {
	switch {
	case o.script == "":
		return usage("--script needs a file, or - for stdin")
	case len(args) > 0:
		return usage("--script and a command exclude each other")
	case o.script == "-" && o.terminal:
		return usage("--script - and -t exclude each other: stdin is the script")
	}
	return nil
}

// readScript reads the script to run; "" without one. What comes from stdin is
// the script, and the script itself gets nothing to read.
func (x *execution) readScript(ctx context.Context, c *client.Client, o *execOptions) (string, error) {
	var raw []byte
	switch o.script {
	case "":
		return "", nil
	case "-":
		if err := c.Health(ctx); err != nil {
			return "", x.unless(ctx, err)
		}
		in, err := x.readStdin(ctx)
		if err != nil {
			return "", err
		}
		raw, o.noStdin = in.head, true
	default:
		var err error
		if raw, err = x.readInput("@"+o.script, maxShellScript); err != nil {
			return "", err
		}
	}
	return scriptText(raw)
}

// scriptText is a script as the tool takes it.
func scriptText(raw []byte) (string, error) {
	text := string(raw)
	switch {
	case len(raw) > maxShellScript:
		return "", failed(palyra.ReasonInputTooLarge, "the script is larger than %d bytes", maxShellScript).
			WithRemedy("put it into a file of the workspace and run that: palyra exec -- sh FILE")
	case strings.TrimSpace(text) == "":
		return "", failed(palyra.ReasonMalformedInput, "the script is empty")
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return "", failed(palyra.ReasonMalformedInput, "the script is not text in UTF-8").WithRemedy("put it into a file of the workspace and run that")
	}
	return text, nil
}
