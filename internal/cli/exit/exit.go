// Package exit defines how a command ends: its exit codes, in one table, and the errors that carry
// one. The code of an error or an outcome is decided here and nowhere else.
package exit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
)

// The exit codes.
const (
	OK           = 0
	Failure      = 1
	Usage        = 2
	Denied       = 3
	Approval     = 4
	NoDaemon     = 5
	Unauthorised = 6
	Busy         = 7
	Older        = 8
	Parked       = 75 // as mail says of what is to be tried again
	Timeout      = 124
	Palyra       = 125
	Refused      = 126
	Cancelled    = 130
	Unread       = 141 // as a shell says of a program that SIGPIPE ended
)

// texts explains each code; it is the documentation.
var texts = []struct {
	code int
	text string
}{
	{OK, "it worked"},
	{Failure, "it failed; the message says why"},
	{Usage, "the command line was not understood"},
	{Denied, "policy denied it"},
	{Approval, "the approval was denied, expired or not awaited"},
	{NoDaemon, "no daemon answers; start one with `palyra up`"},
	{Unauthorised, "the credential may not do this"},
	{Busy, "too much at once or too often; wait and try again"},
	{Older, "the journal is older than evidence that was kept"},
	{Parked, "agent run --park: its start waits for a person; run the same line again once it is answered"},
	{Timeout, "it took too long and was ended"},
	{Palyra, "exec: Palyra itself failed, or cannot tell what became of the command"},
	{Refused, "the call was refused, or nothing that it changed was kept; exec: also denied, or not allowed in time"},
	{Cancelled, "it was cancelled"},
	{Unread, "exec: the reader of its output went away, and the command was ended"},
}

// byReason is the first table an error is looked up in.
var byReason = map[palyra.Reason]int{
	palyra.ReasonStopping: NoDaemon,

	palyra.ReasonPolicyDenied:    Denied,
	palyra.ReasonPolicyError:     Denied,
	palyra.ReasonToolDisabled:    Denied,
	palyra.ReasonWorkspaceDenied: Denied,

	palyra.ReasonApprovalDenied:     Approval,
	palyra.ReasonApprovalExpired:    Approval,
	palyra.ReasonApprovalFailed:     Approval,
	palyra.ReasonApprovalNotAwaited: Approval,
	palyra.ReasonRecentlyDenied:     Approval,
	palyra.ReasonTooManyPending:     Approval,
	palyra.ReasonQuestionBytes:      Approval,
	palyra.ReasonPairingRefused:     Approval,

	palyra.ReasonAgentMayNotDecide: Unauthorised,
	palyra.ReasonRequesterDecides:  Unauthorised,
	palyra.ReasonBadSignature:      Unauthorised,
	palyra.ReasonReplayedSignature: Unauthorised,
	palyra.ReasonStaleSignature:    Unauthorised,
	palyra.ReasonSignatureRequired: Unauthorised,
	palyra.ReasonUnknownKey:        Unauthorised,
	palyra.ReasonNoCredential:      Unauthorised,
	palyra.ReasonBadCredential:     Unauthorised,
	palyra.ReasonForeignUID:        Unauthorised,
	palyra.ReasonPermission:        Unauthorised,
	palyra.ReasonScopeDenied:       Unauthorised,
	palyra.ReasonBadCertificate:    Unauthorised,
	palyra.ReasonDeviceRevoked:     Unauthorised,
	palyra.ReasonDeviceRequired:    Unauthorised,
	palyra.ReasonPairingWrongCode:  Unauthorised,
	palyra.ReasonPairingImpostor:   Unauthorised,

	palyra.ReasonRateLimited: Busy,

	palyra.ReasonTimedOut:  Timeout,
	palyra.ReasonCancelled: Cancelled,

	// Reasons whose code would give another exit code.
	palyra.ReasonUnsafePermissions: Failure,
	palyra.ReasonVerifyFailed:      Failure,
	palyra.ReasonStaleDigest:       Failure,
	palyra.ReasonPathOutside:       Failure,
	palyra.ReasonLastOwner:         Failure,
	palyra.ReasonGrantRevoked:      Failure,
	palyra.ReasonGrantSpent:        Failure,
	palyra.ReasonSessionClosed:     Failure,
	palyra.ReasonPairingExpired:    Failure,
}

// byCode is the second table; it has every code.
var byCode = map[palyra.Code]int{
	palyra.Invalid:     Failure,
	palyra.Denied:      Denied,
	palyra.Expired:     Approval,
	palyra.NotFound:    Failure,
	palyra.Conflict:    Failure,
	palyra.Exhausted:   Failure,
	palyra.Unavailable: Failure,
	palyra.Internal:    Failure,
}

// Of is the exit code of an error. NoDaemon is not among them: only the caller knows that no daemon answers.
func Of(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := As(err); ok {
		return e.Code
	}
	e := palyra.AsError(err)
	if e.Reason == palyra.ReasonWorkspaceDenied {
		return Failure // of an operator's command; a refused call is an outcome
	}
	if code, ok := byReason[e.Reason]; ok {
		return code
	}
	return byCode[e.Code]
}

// OfOutcome is the exit code of a call. A refusal that is not Palyra's own failure is never one: a script can tell them apart.
func OfOutcome(o palyra.Outcome) int {
	switch o.Outcome {
	case palyra.OutcomeFinished:
		if o.ReasonCode != "" && o.ExitCode == palyra.ExitRefused {
			return Refused
		}
		if o.ExitCode != 0 || o.Signal != "" || o.ReasonCode != "" {
			return Failure
		}
		return OK
	case palyra.OutcomeCancelled:
		return Cancelled
	case palyra.OutcomeTimedOut:
		return Timeout
	case palyra.OutcomeRefused:
		if code := byReason[o.ReasonCode]; code > Failure {
			return code
		}
		if !slices.Contains(palyrasOwn, o.ReasonCode) {
			return Refused
		}
	}
	return Failure
}

// palyrasOwn are the reasons of refusals that are not the call's fault.
var palyrasOwn = []palyra.Reason{
	palyra.ReasonJournalUnavailable, palyra.ReasonDiskFull, palyra.ReasonInternal, palyra.ReasonStopping,
}

// OfExec is the exit code of a command that went through the gate: its own if it ended by itself,
// and otherwise one of four.
func OfExec(o palyra.Outcome) int {
	switch o.Outcome {
	case palyra.OutcomeFinished:
		return ofCommand(o)
	case palyra.OutcomeCancelled:
		return Cancelled
	case palyra.OutcomeTimedOut:
		return Timeout
	case palyra.OutcomeRefused:
		if !slices.Contains(palyrasOwn, o.ReasonCode) {
			return Refused
		}
	}
	return Palyra
}

// ofCommand is the code of a command that ended: its own, 128+n after signal n. A failure is never 0.
func ofCommand(o palyra.Outcome) int {
	switch {
	case o.Signal != "" && o.ExitCode <= 128:
		return 128 + max(signalNumbers[o.Signal], 1)
	case o.ExitCode == 0 && o.ReasonCode != "":
		return Palyra
	}
	return o.ExitCode & 0xff
}

// signalNumbers are those of Linux, for an outcome with only the name of a signal.
var signalNumbers = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGUSR1": 10,
	"SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31,
}

// ForExec gives an error of exec its exit code. The command did not run then, so the code is not
// one of the command's. A refused credential has the same code as with every other command: no call
// was proposed that could have been refused.
func ForExec(err error) error {
	if _, ours := As(err); err == nil || ours {
		return err
	}
	code := Palyra
	switch e := palyra.AsError(err); {
	case e.Reason == palyra.ReasonCancelled:
		code = Cancelled
	case byReason[e.Reason] == Unauthorised:
		code = Unauthorised
	case e.Code == palyra.Denied:
		code = Refused
	}
	return Error{Code: code, Err: err}
}

// Topic is the help page `palyra help exit-codes`.
func Topic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Every command ends with one of these codes:\n\n")
	for _, e := range texts {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.text)
	}
	b.WriteString("\nA call that is refused, cancelled or ended by its time has an outcome that says so:\n" +
		"`palyra tools call --json` prints it to stdout as it prints any other, and the code\n" +
		"tells them apart: a refusal is 3, 4, 6 or 7 where one of those says why, else 126. `palyra down` without a daemon has nothing " +
		"to do and ends with 0.\n")
	b.WriteString("\n`palyra exec` ends with the command's own code, or with 128+n where signal n ended it;\n" +
		"only 2, 6, 75 (agent run --park), 124, 125, 126 and 130 are its own, and the message or the outcome says which\n" +
		"is meant. `palyra run` and `palyra runs attach` end with 0 for a run that is done, 1 for\n" +
		"one that failed and 130 for one that was cancelled.\n")
	b.WriteString("\nAn error is printed to stderr as `palyra: text` and, where there is one, a second\n" +
		"line with the remedy. With --json it is one object there:\n\n" +
		`  {"error":{"code":"…","reason_code":"…","text":"…","remedy":"…"}}`)
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}
