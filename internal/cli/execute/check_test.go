package execute

import (
	"testing"

	"palyra"
	"palyra/internal/cli/exit"
)

// Only "allowed" ends with 0.
func TestCheckExits(t *testing.T) {
	for _, c := range []struct {
		out  palyra.Outcome
		code int
	}{
		{palyra.Outcome{Outcome: palyra.OutcomeAllowed}, exit.OK},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPolicyDenied}, exit.Refused},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonDiskFull}, exit.Palyra},
		{palyra.Outcome{Outcome: palyra.OutcomeCancelled}, exit.Cancelled},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished}, exit.Palyra},
		{palyra.Outcome{Outcome: palyra.OutcomeUnknown}, exit.Palyra},
		{palyra.Outcome{Outcome: palyra.OutcomeTimedOut}, exit.Palyra},
		{palyra.Outcome{}, exit.Palyra},
	} {
		if got := exitOfCheck(c.out); got != c.code {
			t.Errorf("%s: %d, want %d", c.out.Outcome, got, c.code)
		}
		if got := exit.OfExec(palyra.Outcome{Outcome: palyra.OutcomeAllowed}); got != exit.Palyra {
			t.Errorf("a command that was only allowed ended with %d", got)
		}
	}
}
