package service

import (
	"errors"
	"testing"

	"palyra"
	"palyra/client"
)

// Only where there is no signature to be had, or nobody to take it, is a signal sent.
func TestAnsweredStops(t *testing.T) {
	for reason, want := range map[palyra.Reason]bool{
		palyra.ReasonBadCredential: true, palyra.ReasonCancelled: true, palyra.ReasonPermission: true, palyra.ReasonRateLimited: true,
		palyra.ReasonNotFound: false, palyra.ReasonUnsafePermissions: false, palyra.ReasonMalformedInput: false,
		palyra.ReasonSignatureRequired: false, palyra.ReasonUnknownKey: false,
		palyra.ReasonJournalUnavailable: false, client.ReasonNoDaemon: false, client.ReasonConnectionLost: false,
	} {
		if got := answered(palyra.Errorf(palyra.Denied, reason, "x")); got != want {
			t.Errorf("%s: %v", reason, got)
		}
	}
	if answered(errors.New("of another kind")) {
		t.Error("an error without a reason is an answer")
	}
}
