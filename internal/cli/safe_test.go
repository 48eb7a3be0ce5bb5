package cli

import (
	"io"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/invocationtest"
	"palyra/internal/cli/question"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/screen"
)

// Whatever the daemon, or whoever speaks through it, puts into a record: what
// reaches the terminal is text.
func TestEveryPrinterMakesTextSafe(t *testing.T) {
	invocationtest.CheckSafe(t, map[string]invocationtest.Printer{
		"call": func(_ *invocation.Invocation, w io.Writer) error {
			printCall(w, questiontest.Poisoned[palyra.Call](), questiontest.Hostile, true)
			return nil
		},
		"approvals": func(inv *invocation.Invocation, _ io.Writer) error {
			return printApprovals(inv, questiontest.Poisoned[client.ApprovalPage]())
		},
		"view": func(inv *invocation.Invocation, w io.Writer) error {
			execute.ViewApproval(inv, w, questiontest.Poisoned[palyra.Approval](), questiontest.Hostile)
			return nil
		},
		"tools": func(_ *invocation.Invocation, w io.Writer) error {
			printTools(w, questiontest.Poisoned[[]palyra.Tool](), 80)
			return nil
		},
		"watched": func(inv *invocation.Invocation, w io.Writer) error {
			printWatched(inv, w, questiontest.Poisoned[palyra.Approval]())
			return nil
		},
		"settled": func(_ *invocation.Invocation, w io.Writer) error {
			_, err := io.WriteString(w, settled(questiontest.Poisoned[palyra.Approval]()))
			return err
		},
		"reach": func(_ *invocation.Invocation, w io.Writer) error {
			_, err := io.WriteString(w, question.Reach(questiontest.Poisoned[client.DecideRequest]()))
			return err
		},
		"block": func(_ *invocation.Invocation, w io.Writer) error {
			screen.Block(w, "Heading", questiontest.Hostile+"\n"+questiontest.Hostile)
			return nil
		},
	})
}

// JSON keeps every character, in escapes that mean the same.
func TestJSONIsSafeAndTrue(t *testing.T) {
	for name, v := range map[string]any{
		"approval": approvalOf(questiontest.Poisoned[palyra.Approval]()), "lease": questiontest.Poisoned[palyra.Lease](),
		"failure": map[string]exit.Message{"error": questiontest.Poisoned[exit.Message]()},
	} {
		questiontest.CheckJSON(t, name, v, screen.Encode)
	}
}
