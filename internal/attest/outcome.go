package attest

import (
	"bytes"
	"reflect"

	"palyra"
	"palyra/internal/canon"
)

// outcome checks what the agent got against what was signed. The digest binds every byte before the envelope; the
// rest makes sure that the daemon's two accounts of one run agree.
func (v *verifier) outcome(text, body []byte) error {
	p := v.predicate
	if palyra.SumBytes(body) != p.OutcomeDigest {
		return fail("the outcome is not the one that was signed")
	}
	var o palyra.Outcome
	if err := canon.Strict(text, &o); err != nil {
		return fail("the outcome does not have the right fields")
	}
	again, err := o.Marshal()
	if err != nil || !bytes.Equal(runes(again), runes(text)) {
		return fail("the outcome is not written as the daemon writes it")
	}
	for _, c := range []struct {
		what string
		same bool
	}{
		{"outcome", o.Outcome == p.Outcome},
		{"tool", o.Tool == p.Tool},
		{"call_id", o.CallID == p.CallID},
		{"session_id", o.SessionID == p.SessionID},
		{"grant_id", o.GrantID == p.GrantID},
		{"approval_id", askedAs(o.ApprovalID, p.Decision)},
		{"plan_digest", o.PlanDigest == p.PlanDigest},
		{"exit_code", o.ExitCode == p.ExitCode},
		{"signal", o.Signal == p.Signal},
		{"effects", o.Effects == p.Effects},
		{"changes", reflect.DeepEqual(o.Changes, p.Changes)},
		{"journal_position", o.JournalPosition == p.Granted.Seq},
	} {
		if !c.same {
			return fail("%s of the outcome is not the attested one", c.what)
		}
	}
	v.checked("outcome_sha256")
	v.checked("ids, plan digest, exit code, journal position")
	return v.streams(o)
}

// askedAs reports whether a call would name that approval: the one it opened or
// joined. A call that an earlier answer covered opened none.
func askedAs(id palyra.ApprovalID, d *palyra.Decision) bool {
	if d == nil || d.Reused && id == "" {
		return id == ""
	}
	return id == d.Approval
}

// runes writes the escaped replacement character as the character. The JSON package writes the escape for bytes
// that are not UTF-8 and the character for the character, so one value has two spellings and both are ours.
func runes(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(`\ufffd`), []byte("\uFFFD"))
}

// streams compares stdout and stderr with their digests, which are of the whole
// output and so say nothing about a part of it.
func (v *verifier) streams(o palyra.Outcome) error {
	for _, s := range []struct {
		name, text, b64 string
		want            palyra.Digest
	}{
		{"stdout", o.Stdout, o.StdoutB64, v.predicate.StdoutDigest},
		{"stderr", o.Stderr, o.StderrB64, v.predicate.StderrDigest},
	} {
		raw, err := canon.Base64(s.b64, 0)
		if err != nil || (s.text != "" && s.b64 != "") {
			return fail("%s stands twice or is not base64", s.name)
		}
		if !o.Truncated && palyra.SumBytes(append(raw, s.text...)) != s.want {
			return fail("%s is not the attested one", s.name)
		}
	}
	if o.Truncated {
		v.warn("the output was cut; its digests are of the whole and were not compared")
		return nil
	}
	v.checked("stdout and stderr")
	return nil
}
