package approval

import (
	"slices"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/show"
)

// Bounds of a vote.
const (
	maxReason    = 1024
	maxSignature = 64 << 10
	minTTL       = time.Second
)

// checkVoter refuses who may not vote at all, before the question is looked at.
func checkVoter(v palyra.Vote) error {
	switch {
	case v.By.IsAgent():
		return palyra.Errorf(palyra.Denied, palyra.ReasonAgentMayNotDecide, "an agent may not decide approvals").
			WithRemedy("have a person decide it with an operator key")
	case v.By.Kind() != "user" || v.By.Name() == "":
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "only a person may decide approvals").
			WithRemedy("sign as the person who holds the key or the device")
	case v.Signature.Sig == "" || v.Signature.PublicKey == "":
		return palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired, "a decision must be signed").
			WithRemedy("decide with 'palyra approvals decide', the console or a paired device")
	}
	body, err := encode(v.Signature)
	if err != nil || len(body) > maxSignature {
		return invalid(palyra.ReasonInputTooLarge, "the signature is too large or cannot be kept")
	}
	return nil
}

// checkForm refuses a vote that makes no sense by itself.
func checkForm(v palyra.Vote) error {
	switch {
	case v.Answer != palyra.AnswerAllow && v.Answer != palyra.AnswerDeny:
		return invalid(palyra.ReasonMalformedInput, "the answer must be allow or deny")
	case !slices.Contains([]palyra.Method{palyra.MethodCLI, palyra.MethodTUI, palyra.MethodConsole, palyra.MethodAPI}, v.Method):
		return invalid(palyra.ReasonMalformedInput, "the method must be cli, tui, console or api")
	case !knownSeparation(v.Separation):
		return invalid(palyra.ReasonMalformedInput, "the approver separation is not a known level")
	case len(v.Reason) > maxReason:
		return invalid(palyra.ReasonInputTooLarge, "the reason is longer than %d bytes", maxReason)
	case !utf8.ValidString(v.Reason):
		return invalid(palyra.ReasonMalformedInput, "the reason is not UTF-8")
	case v.Uses < 0:
		return invalid(palyra.ReasonMalformedInput, "the number of uses may not be negative")
	}
	return nil
}

// checkScope refuses a scope that does not fit the answer or the question.
func checkScope(v palyra.Vote, a palyra.Approval, longest time.Duration) error {
	if v.Answer == palyra.AnswerDeny {
		if v.TTLMS != 0 || v.Uses != 0 || v.Scope != "" && v.Scope != palyra.ScopeOnce {
			return invalid(palyra.ReasonMalformedInput, "a deny has no scope, time or uses")
		}
		return nil
	}
	switch v.Scope {
	case palyra.ScopeOnce:
		if v.Uses > 1 || v.Widen != "" && v.Widen != palyra.WidenExact {
			return invalid(palyra.ReasonMalformedInput, "a once answer is for this exact plan, one time")
		}
	case palyra.ScopeSession, palyra.ScopeTimeboxed:
		if a.Need.Fresh {
			return invalid(palyra.ReasonMalformedInput, "policy wants a fresh answer for every such call").
				WithRemedy("answer with scope once")
		}
	default:
		return invalid(palyra.ReasonMalformedInput, "the scope must be once, session or timeboxed")
	}
	most := longest.Milliseconds()
	switch {
	case v.Scope != palyra.ScopeTimeboxed && v.TTLMS != 0:
		return invalid(palyra.ReasonMalformedInput, "only a timeboxed answer has a time to live")
	case v.Scope == palyra.ScopeTimeboxed && (v.TTLMS < minTTL.Milliseconds() || v.TTLMS > most):
		return invalid(palyra.ReasonMalformedInput, "a timeboxed answer needs a time to live from %s to %s",
			show.Span(minTTL), show.Span(longest))
	}
	offered := func(o palyra.Widening) bool { return o.Name == v.Widen }
	if v.Widen != "" && !slices.ContainsFunc(a.Prompt.Options, offered) {
		return invalid(palyra.ReasonMalformedInput, "that generalisation was not offered for this plan")
	}
	return nil
}

// checkQuestion refuses a vote that does not fit the question. An allow signed more weakly than policy needs is
// refused rather than kept: it could never count, and its voter would have no second vote.
func checkQuestion(v palyra.Vote, a palyra.Approval) error {
	digest := v.Signature.Intent.PlanDigest
	switch {
	case v.By == a.Principal:
		return palyra.Errorf(palyra.Denied, palyra.ReasonRequesterDecides, "%s asked and may not decide", v.By).
			WithRemedy("have another credential decide it")
	case v.Digest != a.PlanDigest || digest != "" && digest != a.PlanDigest:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonStaleDigest, "the answer is for another plan than approval %s asks about", a.ID).
			WithRemedy("look at the approval again and decide what it shows now")
	case v.Answer == palyra.AnswerDeny:
		return nil
	case a.Need.Device && !v.Device:
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "policy wants this signed by a paired device")
	case v.Separation.Rank() < needRank(a.Need.Separation):
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
			"policy wants approver separation %q; this key has %q", a.Need.Separation, v.Separation).
			WithRemedy("protect the operator key ('palyra operator protect') or decide with one that is")
	}
	return nil
}

func invalid(reason palyra.Reason, format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, reason, format, args...)
}
