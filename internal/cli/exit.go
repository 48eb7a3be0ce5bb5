package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
)

// The exit codes.
const (
	exitOK           = 0
	exitFailure      = 1
	exitUsage        = 2
	exitDenied       = 3
	exitApproval     = 4
	exitNoDaemon     = 5
	exitUnauthorised = 6
	exitTimeout      = 124
	exitCancelled    = 130
)

// exitText says what each code means; it is the documentation.
var exitText = []struct {
	code int
	text string
}{
	{exitOK, "it worked"},
	{exitFailure, "it failed; the message says why"},
	{exitUsage, "the command line was not understood"},
	{exitDenied, "policy denied it"},
	{exitApproval, "the approval was denied, expired or not awaited"},
	{exitNoDaemon, "no daemon answers; start one with `palyra up`"},
	{exitUnauthorised, "the credential may not do this"},
	{exitTimeout, "it took too long and was ended"},
	{exitCancelled, "it was cancelled"},
}

// exitByReason is the first table an error is looked up in.
var exitByReason = map[palyra.Reason]int{
	client.ReasonNoDaemon:       exitNoDaemon,
	client.ReasonConnectionLost: exitNoDaemon,
	palyra.ReasonStopping:       exitNoDaemon,

	palyra.ReasonPolicyDenied:    exitDenied,
	palyra.ReasonPolicyError:     exitDenied,
	palyra.ReasonToolDisabled:    exitDenied,
	palyra.ReasonWorkspaceDenied: exitDenied,

	palyra.ReasonApprovalDenied:     exitApproval,
	palyra.ReasonApprovalExpired:    exitApproval,
	palyra.ReasonApprovalFailed:     exitApproval,
	palyra.ReasonApprovalNotAwaited: exitApproval,
	palyra.ReasonRecentlyDenied:     exitApproval,
	palyra.ReasonTooManyPending:     exitApproval,

	palyra.ReasonAgentMayNotDecide: exitUnauthorised,
	palyra.ReasonRequesterDecides:  exitUnauthorised,
	palyra.ReasonBadSignature:      exitUnauthorised,
	palyra.ReasonReplayedSignature: exitUnauthorised,
	palyra.ReasonStaleSignature:    exitUnauthorised,
	palyra.ReasonSignatureRequired: exitUnauthorised,
	palyra.ReasonUnknownKey:        exitUnauthorised,
	palyra.ReasonNoCredential:      exitUnauthorised,
	palyra.ReasonBadCredential:     exitUnauthorised,
	palyra.ReasonForeignUID:        exitUnauthorised,
	palyra.ReasonPermission:        exitUnauthorised,

	palyra.ReasonTimedOut:  exitTimeout,
	palyra.ReasonCancelled: exitCancelled,

	// Of a code that would say otherwise.
	palyra.ReasonUnsafePermissions: exitFailure,
	palyra.ReasonVerifyFailed:      exitFailure,
	palyra.ReasonStaleDigest:       exitFailure,
	palyra.ReasonPathOutside:       exitFailure,
	palyra.ReasonLastOwner:         exitFailure,
	palyra.ReasonGrantRevoked:      exitFailure,
	palyra.ReasonGrantSpent:        exitFailure,
	palyra.ReasonSessionClosed:     exitFailure,
}

// exitByCode is the second; every code stands in it.
var exitByCode = map[palyra.Code]int{
	palyra.Invalid:     exitFailure,
	palyra.Denied:      exitDenied,
	palyra.Expired:     exitApproval,
	palyra.NotFound:    exitFailure,
	palyra.Conflict:    exitFailure,
	palyra.Exhausted:   exitFailure,
	palyra.Unavailable: exitFailure,
	palyra.Internal:    exitFailure,
}

// exitOf is the exit code of an error.
func exitOf(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := asExit(err); ok {
		return e.code
	}
	e := palyra.AsError(err)
	if e.Reason == palyra.ReasonWorkspaceDenied {
		return exitFailure // of an operator's command; a refused call is an outcome
	}
	if code, ok := exitByReason[e.Reason]; ok {
		return code
	}
	return exitByCode[e.Code]
}

// exitOfOutcome is the exit code of a call.
func exitOfOutcome(o palyra.Outcome) int {
	switch o.Outcome {
	case palyra.OutcomeFinished:
		if o.ExitCode != 0 || o.Signal != "" || o.ReasonCode != "" {
			return exitFailure
		}
		return exitOK
	case palyra.OutcomeCancelled:
		return exitCancelled
	case palyra.OutcomeTimedOut:
		return exitTimeout
	case palyra.OutcomeRefused:
		if code, ok := exitByReason[o.ReasonCode]; ok {
			return code
		}
	}
	return exitFailure
}

// exitTopic is the help page `palyra help exit-codes`.
func exitTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Every command ends with one of these codes:\n\n")
	for _, e := range exitText {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.text)
	}
	b.WriteString("\nA call that is refused, cancelled or ended by its time has an outcome that says so:\n" +
		"`palyra tools call --json` prints it to stdout as it prints any other, and the code\n" +
		"tells them apart. `palyra down` without a daemon has nothing to do and ends with 0.\n")
	b.WriteString("\nAn error is printed to stderr as `palyra: text` and, where there is one, a second\n" +
		"line with the remedy. With --json it is one object there:\n\n" +
		`  {"error":{"code":"…","reason_code":"…","text":"…","remedy":"…"}}`)
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}
