// Package tapeline says what happens to a call in the words of a run's tape, and names the calls of a run.
//
// It keeps nothing: who keeps the tape writes what it says.
package tapeline

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/ulid"
)

// What the tape keeps of outside text.
const (
	maxTapedArguments = 8 << 10
	MaxText           = 4 << 10
)

// Delivered is how much output an outcome hands to the agent.
func Delivered(o *palyra.Outcome) int64 {
	if o == nil {
		return 0
	}
	return int64(len(o.Stdout) + len(o.StdoutB64) + len(o.Stderr) + len(o.StderrB64) + len(o.Output))
}

// Ends reports whether an event ends its call.
func Ends(e palyra.Event) bool {
	switch e.(type) {
	case palyra.CallFinished, palyra.CallRefused, palyra.CallCancelled, palyra.CallUnknown, palyra.CallChecked, palyra.CallObserved:
		return true
	}
	return false
}

// Of says an event in the words of the tape, with the call as it stands when the event is recorded.
func Of(c *palyra.Call, e palyra.Event) []palyra.TapeEntry {
	switch e := e.(type) {
	case palyra.CallProposed:
		return []palyra.TapeEntry{{ToolProposed: &palyra.TapeProposed{
			Call: c.ID, Turn: turnOf(c), Tool: palyra.Clip(c.Proposal.Tool, 512), Arguments: shown(c.Proposal.Arguments),
		}}}
	case palyra.CallJudged:
		return append(resolved(c, e.Again), palyra.TapeEntry{ToolJudged: judgedEntry(c, e)})
	case palyra.ApprovalRequested:
		return []palyra.TapeEntry{requestedEntry(c, e.Approval, palyra.TapeRequested{ExpiresAt: e.ExpiresAt})}
	case palyra.ApprovalJoined:
		return []palyra.TapeEntry{requestedEntry(c, e.Approval, palyra.TapeRequested{Joined: true})}
	case palyra.CallGranted:
		return []palyra.TapeEntry{{ToolGranted: &palyra.TapeGranted{Call: c.ID, Grant: e.Grant, Tier: e.Tier}}}
	case palyra.CallFinished:
		attested := &palyra.TapeAttested{Call: c.ID, Attestation: e.AttestedAs, Digest: e.Attestation, Egress: e.Signed.Predicate.Egress}
		return []palyra.TapeEntry{{ToolAttested: attested}, finishedEntry(c)}
	case palyra.CallRefused:
		// An allow was told when it was judged again.
		return append(resolved(c, c.Decision.Answer != palyra.AnswerAllow), finishedEntry(c))
	case palyra.CallCancelled, palyra.CallUnknown, palyra.CallChecked, palyra.CallObserved:
		return []palyra.TapeEntry{finishedEntry(c)}
	}
	return nil
}

func judgedEntry(c *palyra.Call, e palyra.CallJudged) *palyra.TapeJudged {
	j := &palyra.TapeJudged{Call: c.ID, Plan: e.Plan, Effect: e.Effect, Risk: e.Risk, Policies: e.Policies, Again: e.Again}
	if e.Again || c.Decision.Answer == palyra.AnswerPending { // else the call holds the later verdict's reason
		j.Reason = palyra.Clip(c.Verdict.Reason, MaxText)
	}
	return j
}

func requestedEntry(c *palyra.Call, approval palyra.ApprovalID, q palyra.TapeRequested) palyra.TapeEntry {
	q.Call, q.Approval, q.Plan, q.Summary = c.ID, approval, c.Digest, palyra.Clip(c.Detail.Summary, MaxText)
	return palyra.TapeEntry{ApprovalRequested: &q}
}

// resolved tells the answer a call waited for, if now is the time and there was
// a question of its own. Where a lease took its place that is the answer behind it.
func resolved(c *palyra.Call, now bool) []palyra.TapeEntry {
	d := c.Decision
	if !now || c.Approval == "" || d.Answer == palyra.AnswerPending {
		return nil
	}
	return []palyra.TapeEntry{{ApprovalResolved: &palyra.TapeResolved{
		Call: c.ID, Approval: c.Approval, Answer: d.Answer, Scope: d.Scope, By: d.By, Reason: palyra.Clip(d.Reason, MaxText),
	}}}
}

func finishedEntry(c *palyra.Call) palyra.TapeEntry {
	f := &palyra.TapeFinished{Call: c.ID}
	if o := c.Outcome; o != nil {
		f.Outcome, f.Layer, f.ReasonCode, f.ExitCode, f.Signal, f.Truncated = o.Outcome, o.Layer, o.ReasonCode, o.ExitCode, o.Signal, o.Truncated
		f.Reason, f.Remedy = palyra.Clip(o.Reason, MaxText), palyra.Clip(o.Remedy, MaxText)
	}
	return palyra.TapeEntry{ToolFinished: f}
}

// shown returns arguments as the tape keeps them: nothing that is large or not
// clean JSON, which must not keep the record from being written.
func shown(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxTapedArguments || !utf8.Valid(raw) || !json.Valid(raw) {
		return nil
	}
	return raw
}

// CallKey names a call of a run, so that a run that is driven again meets the calls it made before.
func CallKey(run palyra.RunID, turn, index int64) string {
	return string(run) + "/" + strconv.FormatInt(turn, 10) + "/" + strconv.FormatInt(index, 10)
}

// IsCallKey reports whether a key is of the form that runs give to their calls.
func IsCallKey(key string) bool {
	run, rest, _ := strings.Cut(key, "/")
	turn, index, ok := strings.Cut(rest, "/")
	number := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return ok && ulid.Valid(run) && number(turn) && number(index)
}

// turnOf reads the turn back out of a call's key.
func turnOf(c *palyra.Call) int64 {
	rest, _ := strings.CutPrefix(c.Proposal.Key, string(c.Proposal.Run)+"/")
	turn, _, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(turn, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
