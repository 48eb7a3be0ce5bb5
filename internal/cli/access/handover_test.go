package access

import (
	"bytes"
	"testing"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

// What an agent is called is text on the terminal.
func TestHandOverIsPrintedSafely(t *testing.T) {
	var out, errs bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &errs}
	if err := handOver(inv, questiontest.Poisoned[palyra.Agent](), palyra.NewSecret([]byte("tok")), ""); err != nil {
		t.Fatal(err)
	}
	questiontest.CheckSafe(t, "handOver", out.String()+errs.String())
}
