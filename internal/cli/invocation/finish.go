package invocation

import (
	"errors"
	"fmt"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// codeOf is the exit code of an error, with NoDaemon for the client's reasons.
func codeOf(err error) int {
	if _, ours := exit.As(err); err != nil && !ours {
		switch palyra.AsError(err).Reason {
		case client.ReasonNoDaemon, client.ReasonOutOfReach, client.ReasonConnectionLost:
			return exit.NoDaemon
		}
	}
	return exit.Of(err)
}

// Finish prints an error, unless it was printed already, and returns the exit code.
func (inv *Invocation) Finish(err error) int {
	code := codeOf(err)
	if err == nil {
		return code
	}
	f := inv.Message(err)
	if f.Text == "" {
		return code
	}
	if inv.JSON {
		if b, err := screen.Encode(map[string]exit.Message{"error": f}); err == nil {
			_, _ = inv.Stderr.Write(b)
		}
		return code
	}
	fmt.Fprintf(inv.Stderr, "palyra: %s\n", show.Line(f.Text))
	if f.Remedy != "" {
		fmt.Fprintf(inv.Stderr, "  remedy: %s\n", show.Line(f.Remedy))
	}
	return code
}

// Message turns an error into a message. An unforeseen error keeps its own text: it comes from the
// person's own machine, not from a daemon to a caller.
func (inv *Invocation) Message(err error) exit.Message {
	if s, ok := exit.As(err); ok && s.Err == nil {
		f := exit.Message{Code: palyra.Invalid, Reason: palyra.ReasonMalformedInput, Text: s.Text}
		if s.Code == exit.Usage {
			f.Remedy = "see `" + inv.helpOf() + "`"
		}
		return f
	}
	var e *palyra.Error
	if !errors.As(err, &e) {
		return exit.Message{Code: palyra.Internal, Reason: palyra.ReasonInternal, Text: err.Error()}
	}
	f := exit.Message{Code: e.Code, Reason: e.Reason, Text: e.Text, Remedy: e.Remedy}
	if inv.Home != "" && e.Reason == client.ReasonNoDaemon { // the one of this home, and no other
		f.Remedy = inv.Own() + " up --detach"
	}
	return f
}

// helpOf is the command that shows the help of this command.
func (inv *Invocation) helpOf() string {
	if inv.Command == "" || inv.Command == "palyra help" {
		return "palyra --help"
	}
	return inv.Command + " --help"
}
