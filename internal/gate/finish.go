package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"palyra"
)

// maxWords bounds what a tool says in words of why it failed.
const maxWords = 8 << 10

// finish signs what happened and makes it durable; until then the output is withheld. It is total: whatever a run
// printed, made or was named, its call ends with a line. What cannot be signed in full is signed without what a run
// can choose, and the line says so; when nothing can be signed, the call ends as unknown.
func (w *walk) finish(ctx context.Context, res palyra.Result) (palyra.Outcome, error) {
	ctx = context.WithoutCancel(ctx) // what ran is signed and recorded whoever has left
	res = w.Mask.Result(res)
	out := outcome(w.call, res)
	att, err := w.sign(ctx, res, out)
	if err != nil {
		return w.unsigned(ctx, res, err)
	}
	out.Attestation = &att.Envelope
	w.end(palyra.Finished, out)
	if _, err := w.record(ctx, finished(w.call, res, out, att)); err != nil { // barrier
		return palyra.Outcome{}, err
	}
	return out, nil
}

// sign signs the predicate of a run: once more where that fails, so that a fault that
// passes costs no evidence, and only then the reduced one.
func (w *walk) sign(ctx context.Context, res palyra.Result, out palyra.Outcome) (palyra.Attestation, error) {
	pred, err := predicate(w.call, res, out, w.NewID())
	if err != nil {
		return palyra.Attestation{}, err
	}
	att, err := w.attest(ctx, pred)
	if err != nil {
		att, err = w.attest(ctx, pred)
	}
	if err == nil {
		return att, nil
	}
	att, again := w.attest(ctx, reduced(pred))
	if again != nil {
		return palyra.Attestation{}, errors.Join(err, again)
	}
	w.Log.Error("a run could not be attested in full", "call", w.call.ID, "err", err)
	return att, nil
}

// signable says why what a call does could not be signed. Nobody is asked about such a call, and nothing of it runs.
func (w *walk) signable() (err error) {
	if w.call.Proposal.Check || w.call.Proposal.Observe { // their callers run them: nothing is attested
		return nil
	}
	defer recoverPanic(&err)
	return w.Attester.Ready()
}

func (w *walk) attest(ctx context.Context, p palyra.Predicate) (att palyra.Attestation, err error) {
	defer recoverPanic(&err)
	return w.Attester.Attest(ctx, p)
}

// reduced is a predicate without what a run or its runner chose the words of. It
// says what it lacks; of connections the number stays.
func reduced(p palyra.Predicate) palyra.Predicate {
	p.Reduced = []string{"executor", "sandbox_enforcement", "kill_reason", "egress", "sealed_path_created", "left_behind"}
	p.Executor, p.KillReason = string(p.Tier), ""
	p.Enforcement = palyra.Enforcement{Mechanisms: []string{}, Limits: map[string]palyra.Hold{}}
	p.Egress, p.EgressOmitted = []palyra.EgressFlow{}, p.EgressOmitted+int64(len(p.Egress))
	p.Quarantined, p.Left, p.Runtime = []palyra.PathText{}, nil, nil
	return p
}

// unsigned ends a call that ran and of which nothing can be signed. Its output is withheld: nothing vouches for it.
func (w *walk) unsigned(ctx context.Context, res palyra.Result, cause error) (palyra.Outcome, error) {
	w.Log.Error("a run could not be attested", "call", w.call.ID, "err", cause)
	from := w.call.State
	out := blank(w.call)
	out.Outcome, out.Layer, out.ReasonCode, out.ExitCode = palyra.OutcomeUnknown, palyra.LayerJournal, palyra.ReasonInternal,
		palyra.ExitUnknown
	out.Reason = "the call ran, and what happened could not be signed; its output is withheld"
	out.Remedy = "look at what it did before proposing it again; see the daemon's log"
	out.Effects, out.Changes = res.Effects, res.Listed
	w.end(palyra.Unknown, out)
	labels := palyra.JoinLabels(labelsOf(w.call, res), MayLabels(w.call))
	if _, err := w.record(ctx, palyra.CallUnknown{Call: w.call.ID, State: from, Labels: labels}); err != nil {
		return palyra.Outcome{}, errors.Join(cause, err)
	}
	return out, nil
}

// readable is a tool's structured result as it can be written down: one JSON text
// in UTF-8. What is none is left out, and the second result is false.
func readable(raw json.RawMessage) (json.RawMessage, bool) {
	switch {
	case len(raw) == 0:
		return raw, true
	case !json.Valid(raw):
		return nil, false
	case !utf8.Valid(raw):
		return bytes.ToValidUTF8(raw, []byte("\uFFFD")), true
	}
	return raw, true
}
