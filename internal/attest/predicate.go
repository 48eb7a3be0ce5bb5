package attest

import (
	"encoding/base64"
	"slices"
	"strings"

	"palyra"
)

// statement checks the payload, which is authentic by now, within itself.
func (v *verifier) statement(payload []byte) error {
	p, err := decodeStatement(payload)
	if err != nil {
		return err
	}
	execution, err := p.Execution()
	if err != nil || execution != p.ExecutionSHA256 {
		return fail("execution_sha256 is not the digest of the predicate")
	}
	if p.TimedOut != (p.Outcome == palyra.OutcomeTimedOut) {
		return fail("timed_out and outcome disagree")
	}
	v.predicate = p
	v.checked("statement")
	v.checked("execution_sha256")
	v.describe()
	v.retired()
	if len(p.Reduced) > 0 {
		v.warn("the run could not be attested in full; these members say nothing: " + palyra.Clip(strings.Join(p.Reduced, ", "), 256))
	}
	return v.decision()
}

func (v *verifier) describe() {
	r, p := &v.report, v.predicate
	r.AttestationID, r.StateID, r.CallID, r.Tool, r.Principal, r.PlanDigest = p.AttestationID, p.StateID, p.CallID, p.Tool, p.Principal,
		p.PlanDigest
	r.Separation, r.Tier, r.Executor, r.Enforcement = p.Separation, p.Tier, p.Executor, p.Enforcement
	r.Outcome, r.ExitCode, r.StartedAt, r.FinishedAt, r.Granted = p.Outcome, p.ExitCode, p.StartedAt, p.FinishedAt, p.Granted
}

// decision checks that what ran was allowed: by policy, or by people whose signatures are here.
func (v *verifier) decision() error {
	p, d := v.predicate, v.predicate.Decision
	switch {
	case p.Verdict == palyra.Allow && d == nil:
		v.checked("policy alone allowed it")
		return nil
	case p.Verdict == palyra.Deny:
		return fail("policy denied the call, yet it ran")
	case d == nil:
		return fail("policy asked, and there is no decision")
	case d.Answer != palyra.AnswerAllow:
		return fail("the decision is not an allow")
	case d.Lease == "" || d.Lease != p.LeaseID:
		return fail("the decision's grant is not the one that was used")
	case d.Separation != p.Separation:
		return fail("the decision's approver separation is not the predicate's")
	case len(d.Votes) == 0:
		return fail("the decision has no votes")
	}
	if err := v.terms(); err != nil {
		return err
	}
	if err := v.votes(d.Votes); err != nil {
		return err
	}
	v.checked("approver signatures")
	v.decided()
	return nil
}

// decided warns of what the answers do not prove.
func (v *verifier) decided() {
	p, d := v.predicate, v.predicate.Decision
	switch {
	case d.Digest != p.PlanDigest:
		v.warn("an earlier answer covered this plan; the approver saw plan " + string(d.Digest) + " and allowed others under the same directory")
	case d.Reused:
		v.warn("an earlier answer covered this plan; nobody was asked again")
	}
	if len(v.trust.OperatorKeys) == 0 {
		v.warn("approver keys are not pinned: the signatures are valid, but whose keys they are is the daemon's word")
	}
}

// votes checks each answer, and that no key and no person is counted twice.
func (v *verifier) votes(votes []palyra.Vote) error {
	seen := map[string]bool{}
	for i, vote := range votes {
		if err := v.vote(i+1, vote); err != nil {
			return err
		}
		key, who := "key "+vote.Signature.Intent.KeyID, "person "+string(vote.By)
		if seen[key] || seen[who] {
			return fail("vote %d: its key or its person has voted already", i+1)
		}
		seen[key], seen[who] = true, true
		v.report.DecidedBy = append(v.report.DecidedBy, vote.By)
	}
	return nil
}

// pinned reports whether an approver's key is one that the reader accepts.
func (v *verifier) pinned(pub []byte) bool {
	if len(v.trust.OperatorKeys) == 0 {
		return true
	}
	return slices.Contains(v.trust.OperatorKeys, base64.StdEncoding.EncodeToString(pub))
}
