package cli

import (
	"fmt"
	"slices"
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
	exitBusy         = 7
	exitOlder        = 8
	exitTimeout      = 124
	exitPalyra       = 125
	exitRefused      = 126
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
	{exitBusy, "too much at once or too often; wait and try again"},
	{exitOlder, "the journal is older than evidence that was kept"},
	{exitTimeout, "it took too long and was ended"},
	{exitPalyra, "exec: Palyra itself failed, or cannot tell what became of the command"},
	{exitRefused, "exec: the command was refused, denied, or not allowed in time"},
	{exitCancelled, "it was cancelled"},
}

// exitByReason is the first table an error is looked up in.
var exitByReason = map[palyra.Reason]int{
	client.ReasonNoDaemon:       exitNoDaemon,
	client.ReasonOutOfReach:     exitNoDaemon,
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
	palyra.ReasonQuestionBytes:      exitApproval,
	palyra.ReasonPairingRefused:     exitApproval,

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
	palyra.ReasonScopeDenied:       exitUnauthorised,
	palyra.ReasonBadCertificate:    exitUnauthorised,
	palyra.ReasonDeviceRevoked:     exitUnauthorised,
	palyra.ReasonDeviceRequired:    exitUnauthorised,
	palyra.ReasonPairingWrongCode:  exitUnauthorised,
	palyra.ReasonPairingImpostor:   exitUnauthorised,

	palyra.ReasonRateLimited: exitBusy,

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
	palyra.ReasonPairingExpired:    exitFailure,
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

// palyrasOwn are the reasons for which a call is refused through no fault of its
// own.
var palyrasOwn = []palyra.Reason{
	palyra.ReasonJournalUnavailable, palyra.ReasonDiskFull, palyra.ReasonInternal, palyra.ReasonStopping,
}

// exitOfExec is the exit code of a command that went through the gate: its own
// where it ended by itself, and one of four where it did not.
func exitOfExec(o palyra.Outcome) int {
	switch o.Outcome {
	case palyra.OutcomeFinished:
		return exitOfCommand(o)
	case palyra.OutcomeCancelled:
		return exitCancelled
	case palyra.OutcomeTimedOut:
		return exitTimeout
	case palyra.OutcomeRefused:
		if !slices.Contains(palyrasOwn, o.ReasonCode) {
			return exitRefused
		}
	}
	return exitPalyra
}

// exitOfCommand is the code of a command that ended: its own, 128+n after signal
// n. A failure never counts as a success.
func exitOfCommand(o palyra.Outcome) int {
	switch {
	case o.Signal != "" && o.ExitCode <= 128:
		return 128 + max(signalNumbers[o.Signal], 1)
	case o.ExitCode == 0 && o.ReasonCode != "":
		return exitPalyra
	}
	return o.ExitCode & 0xff
}

// signalNumbers are those of Linux, for an outcome that names a signal only.
var signalNumbers = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGUSR1": 10,
	"SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31,
}

// execError gives an error of exec its exit code. Nothing is known of the
// command then, so it is none of the command's. Who is not let in with their
// credential is told so as by every other command: no call was proposed that
// could have been refused.
func execError(err error) error {
	if _, ours := asExit(err); err == nil || ours {
		return err
	}
	code := exitPalyra
	switch e := palyra.AsError(err); {
	case e.Reason == palyra.ReasonCancelled:
		code = exitCancelled
	case exitByReason[e.Reason] == exitUnauthorised:
		code = exitUnauthorised
	case e.Code == palyra.Denied:
		code = exitRefused
	}
	return exitError{code: code, err: err}
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
	b.WriteString("\n`palyra exec` ends with the command's own code, or with 128+n where signal n ended it;\n" +
		"only 2, 6, 124, 125, 126 and 130 are its own, and the message or the outcome says which\n" +
		"is meant. `palyra run` and `palyra runs attach` end with 0 for a run that is done, 1 for\n" +
		"one that failed and 130 for one that was cancelled.\n")
	b.WriteString("\nAn error is printed to stderr as `palyra: text` and, where there is one, a second\n" +
		"line with the remedy. With --json it is one object there:\n\n" +
		`  {"error":{"code":"…","reason_code":"…","text":"…","remedy":"…"}}`)
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}
