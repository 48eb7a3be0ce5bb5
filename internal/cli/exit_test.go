package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

func TestEveryCodeHasAnExitCode(t *testing.T) {
	for _, c := range palyra.Codes() {
		if _, ok := exitByCode[c]; !ok {
			t.Errorf("code %s has none", c)
		}
	}
}

func TestExitCodesAreDocumented(t *testing.T) {
	page := exitTopic().Long
	known := map[int]bool{}
	for _, e := range exitText {
		if known[e.code] {
			t.Errorf("%d stands twice", e.code)
		}
		known[e.code] = true
		if !strings.Contains(page, fmt.Sprintf("%3d  %s", e.code, e.text)) {
			t.Errorf("%d is not on the page", e.code)
		}
	}
	for reason, code := range exitByReason {
		if !known[code] {
			t.Errorf("%s: %d is not documented", reason, code)
		}
	}
	for c, code := range exitByCode {
		if !known[code] {
			t.Errorf("%s: %d is not documented", c, code)
		}
	}
	want := []int{0, 1, 2, 3, 4, 5, 6, 124, 130}
	var got []int
	for _, e := range exitText {
		got = append(got, e.code)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestExitOf(t *testing.T) {
	err := func(code palyra.Code, reason palyra.Reason) error { return palyra.Errorf(code, reason, "x") }
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{err(palyra.Internal, palyra.ReasonInternal), 1},
		{usage("x"), 2},
		{fmt.Errorf("more: %w", usage("x")), 2},
		{err(palyra.Denied, palyra.ReasonPolicyDenied), 3},
		{err(palyra.Denied, "a_reason_of_tomorrow"), 3},
		{err(palyra.Denied, palyra.ReasonApprovalDenied), 4},
		{err(palyra.Expired, palyra.ReasonApprovalExpired), 4},
		{err(palyra.Exhausted, palyra.ReasonTooManyPending), 4},
		{err(palyra.Unavailable, client.ReasonNoDaemon), 5},
		{err(palyra.Unavailable, client.ReasonConnectionLost), 5},
		{err(palyra.Unavailable, palyra.ReasonStopping), 5},
		{err(palyra.Unavailable, palyra.ReasonDiskFull), 1},
		{err(palyra.Denied, palyra.ReasonAgentMayNotDecide), 6},
		{err(palyra.Denied, palyra.ReasonBadSignature), 6},
		{err(palyra.Denied, palyra.ReasonPermission), 6},
		{fmt.Errorf("more: %w", err(palyra.Denied, palyra.ReasonForeignUID)), 6},
		{err(palyra.Expired, palyra.ReasonTimedOut), 124},
		{err(palyra.Expired, palyra.ReasonCancelled), 130},
		{err(palyra.Denied, palyra.ReasonUnsafePermissions), 1},
		{err(palyra.Denied, palyra.ReasonWorkspaceDenied), 1},
		{err(palyra.Conflict, palyra.ReasonAlreadyDecided), 1},
		{err(palyra.NotFound, palyra.ReasonNotFound), 1},
	} {
		if got := exitOf(c.err); got != c.want {
			t.Errorf("exitOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestExitOfOutcome(t *testing.T) {
	for _, c := range []struct {
		o    palyra.Outcome
		want int
	}{
		{palyra.Outcome{Outcome: palyra.OutcomeFinished}, 0},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 7}, 1},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, Signal: "SIGKILL"}, 1},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ReasonCode: palyra.ReasonFileNotFound}, 1},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonSchemaMismatch}, 1},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPolicyDenied}, 3},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonWorkspaceDenied}, 3},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalDenied}, 4},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalNotAwaited}, 4},
		{palyra.Outcome{Outcome: palyra.OutcomeTimedOut, ReasonCode: palyra.ReasonTimedOut}, 124},
		{palyra.Outcome{Outcome: palyra.OutcomeCancelled, ReasonCode: palyra.ReasonCancelled}, 130},
		{palyra.Outcome{Outcome: palyra.OutcomeUnknown}, 1},
		{palyra.Outcome{}, 1},
	} {
		if got := exitOfOutcome(c.o); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.o.Outcome, c.o.ReasonCode, got, c.want)
		}
	}
}
