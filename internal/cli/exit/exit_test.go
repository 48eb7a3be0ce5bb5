package exit

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
		if _, ok := byCode[c]; !ok {
			t.Errorf("code %s has none", c)
		}
	}
}

func TestExitCodesAreDocumented(t *testing.T) {
	page := Topic().Long
	known := map[int]bool{}
	for _, e := range texts {
		if known[e.code] {
			t.Errorf("%d stands twice", e.code)
		}
		known[e.code] = true
		if !strings.Contains(page, fmt.Sprintf("%3d  %s", e.code, e.text)) {
			t.Errorf("%d is not on the page", e.code)
		}
	}
	for reason, code := range byReason {
		if !known[code] {
			t.Errorf("%s: %d is not documented", reason, code)
		}
	}
	for c, code := range byCode {
		if !known[code] {
			t.Errorf("%s: %d is not documented", c, code)
		}
	}
	want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 75, 124, 125, 126, 130, 141}
	var got []int
	for _, e := range texts {
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
		{Usagef("x"), 2},
		{fmt.Errorf("more: %w", Usagef("x")), 2},
		{err(palyra.Denied, palyra.ReasonPolicyDenied), 3},
		{err(palyra.Denied, "a_reason_of_tomorrow"), 3},
		{err(palyra.Denied, palyra.ReasonApprovalDenied), 4},
		{err(palyra.Expired, palyra.ReasonApprovalExpired), 4},
		{err(palyra.Exhausted, palyra.ReasonTooManyPending), 4},
		{err(palyra.Unavailable, palyra.ReasonStopping), 5},
		{err(palyra.Unavailable, palyra.ReasonDiskFull), 1},
		{err(palyra.Denied, palyra.ReasonAgentMayNotDecide), 6},
		{err(palyra.Denied, palyra.ReasonBadSignature), 6},
		{err(palyra.Denied, palyra.ReasonPermission), 6},
		{err(palyra.Denied, palyra.ReasonScopeDenied), 6},
		{err(palyra.Exhausted, palyra.ReasonRateLimited), 7},
		{fmt.Errorf("more: %w", err(palyra.Denied, palyra.ReasonForeignUID)), 6},
		{err(palyra.Expired, palyra.ReasonTimedOut), 124},
		{err(palyra.Expired, palyra.ReasonCancelled), 130},
		{err(palyra.Denied, palyra.ReasonUnsafePermissions), 1},
		{err(palyra.Denied, palyra.ReasonWorkspaceDenied), 1},
		{err(palyra.Conflict, palyra.ReasonAlreadyDecided), 1},
		{err(palyra.NotFound, palyra.ReasonNotFound), 1},
	} {
		if got := Of(c.err); got != c.want {
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
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ReasonCode: palyra.ReasonEffectsDropped, ExitCode: palyra.ExitRefused}, 126},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: palyra.ExitRefused}, 1}, // the program's own
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonSchemaMismatch}, 126},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPathOutside}, 126},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: "a_reason_of_tomorrow"}, 126},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonDiskFull}, 1},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPolicyDenied}, 3},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonWorkspaceDenied}, 3},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalDenied}, 4},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalNotAwaited}, 4},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonScopeDenied}, 6},
		{palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonRateLimited}, 7},
		{palyra.Outcome{Outcome: palyra.OutcomeTimedOut, ReasonCode: palyra.ReasonTimedOut}, 124},
		{palyra.Outcome{Outcome: palyra.OutcomeCancelled, ReasonCode: palyra.ReasonCancelled}, 130},
		{palyra.Outcome{Outcome: palyra.OutcomeUnknown}, 1},
		{palyra.Outcome{}, 1},
	} {
		if got := OfOutcome(c.o); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.o.Outcome, c.o.ReasonCode, got, c.want)
		}
	}
}

// The code of exec for everything a call can come to.
func TestExitOfExec(t *testing.T) {
	refused := func(r palyra.Reason) palyra.Outcome {
		return palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: r, ExitCode: palyra.ExitRefused}
	}
	for _, c := range []struct {
		o    palyra.Outcome
		want int
	}{
		{palyra.Outcome{Outcome: palyra.OutcomeFinished}, 0},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 1}, 1},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 127}, 127},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 255}, 255},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 130, Signal: "SIGINT"}, 130},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 143, Signal: "SIGTERM"}, 143},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, Signal: "SIGKILL"}, 137},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, Signal: "SIGSTRANGE"}, 129},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 137, Signal: "SIGKILL", ReasonCode: palyra.ReasonQuotaExceeded}, 137},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 2, ReasonCode: palyra.ReasonQuotaExceeded}, 2},
		{palyra.Outcome{Outcome: palyra.OutcomeFinished, ReasonCode: palyra.ReasonQuotaExceeded}, 125},
		{palyra.Outcome{Outcome: palyra.OutcomeTimedOut, ReasonCode: palyra.ReasonTimedOut, ExitCode: 143, Signal: "SIGTERM"}, 124},
		{palyra.Outcome{Outcome: palyra.OutcomeCancelled, ReasonCode: palyra.ReasonCancelled, ExitCode: 137, Signal: "SIGKILL"}, 130},
		{palyra.Outcome{Outcome: palyra.OutcomeUnknown, ExitCode: palyra.ExitUnknown}, 125},
		{palyra.Outcome{}, 125},
		{palyra.Outcome{Outcome: "of tomorrow"}, 125},
		{refused(palyra.ReasonPolicyDenied), 126},
		{refused(palyra.ReasonApprovalDenied), 126},
		{refused(palyra.ReasonApprovalExpired), 126},
		{refused(palyra.ReasonApprovalNotAwaited), 126},
		{refused(palyra.ReasonRecentlyDenied), 126},
		{refused(palyra.ReasonTierUnavailable), 126},
		{refused(palyra.ReasonWeakEnforcement), 126},
		{refused(palyra.ReasonPlanChanged), 126},
		{refused(palyra.ReasonFileNotFound), 126},
		{refused(palyra.ReasonNotExecutable), 126},
		{refused(palyra.ReasonSpawnFailed), 126},
		{refused(palyra.ReasonEgressDenied), 126},
		{refused(palyra.ReasonEnvDenied), 126},
		{refused(palyra.ReasonStdinDenied), 126},
		{refused("a_reason_of_tomorrow"), 126},
		{refused(palyra.ReasonJournalUnavailable), 125},
		{refused(palyra.ReasonDiskFull), 125},
		{refused(palyra.ReasonInternal), 125},
		{refused(palyra.ReasonStopping), 125},
		{refused(palyra.ReasonPolicyError), 126},
	} {
		if got := OfExec(c.o); got != c.want {
			t.Errorf("%+v: %d, want %d", c.o, got, c.want)
		}
	}
}

func TestExecError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{Usagef("x"), 2},
		{Error{Code: 7}, 7},
		{errors.New("x"), 125},
		{palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "x"), 125},
		{palyra.Errorf(palyra.Unavailable, client.ReasonConnectionLost, "x"), 125},
		{palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "x"), 125},
		{palyra.Errorf(palyra.Denied, palyra.ReasonForeignUID, "x"), 6},
		{palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "x"), 6},
		{palyra.Errorf(palyra.Invalid, palyra.ReasonBadCredential, "x"), 6},
		{palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "x"), 6},
		{palyra.Errorf(palyra.Denied, palyra.ReasonPolicyDenied, "x"), 126},
		{Interrupted(errors.New("x")), 130},
	} {
		err := ForExec(c.err)
		if got := Of(err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
		if got := Of(Interrupted(err)); err != nil && c.want != Usage && c.want != 7 && got != c.want {
			t.Errorf("%v: a signal made it %d", c.err, got)
		}
	}
}
