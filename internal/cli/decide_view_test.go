package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

// Another machine has no uid here, and the command that shows more reaches the
// daemon that asks.
func TestAnApprovalFromAnotherMachine(t *testing.T) {
	a := questiontest.ProcessApproval()
	a.PeerUID = -1
	inv := &invocation.Invocation{Now: func() time.Time { return questiontest.SampleNow }, Remote: invocation.RemoteFlag{Name: "work", Given: true}}
	var b bytes.Buffer
	v := viewOf(inv, &b, a, palyra.SeparationDevice)
	v.Short = true
	v.Print()
	for _, want := range []string{"(from another machine) through", "palyra --remote work approvals show"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "uid -1") {
		t.Error(b.String())
	}
}
