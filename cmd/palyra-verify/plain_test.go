package main

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/attest/attesttest"
	"palyra/internal/journal"
)

// answered is the journal of a daemon at which Ada paired a browser and answered with its key.
func answered(t *testing.T, address string, events ...palyra.Event) *journal.Journal {
	t.Helper()
	j := opened(t, nil)
	paired := palyra.DevicePaired{Device: palyra.Device{
		ID: "dev-1", Name: "phone", Principal: "user:ada", Role: palyra.RoleOwner, KeyID: attesttest.Ada.OperatorID(),
		PublicKey: attesttest.Ada.Public(), Address: address,
	}}
	if _, err := j.Record(t.Context(), append([]palyra.Event{paired}, events...)...); err != nil {
		t.Fatal(err)
	}
	return j
}

// signedVote is an answer, signed by a key.
func signedVote(key attesttest.Key, answer palyra.Answer, change func(*palyra.Vote)) palyra.Vote {
	r := attesttest.NewRun()
	r.Predicate.Decision.Votes = nil
	r.Vote(key, "user:ada", func(v *palyra.Vote) {
		v.Answer, v.Signature.Fields["answer"] = answer, string(answer)
		if change != nil {
			change(v)
		}
	})
	return r.Predicate.Decision.Votes[0]
}

// The key of a browser that was paired over plain HTTP denies and does nothing else, also where the journal is the daemon's own
// and well sealed.
func TestKeysOfPlainHTTPOnlyDeny(t *testing.T) {
	const plain, here = "http://192.0.2.7:7145", "palyra.localhost:7142"
	allow, deny := signedVote(attesttest.Ada, palyra.AnswerAllow, nil), signedVote(attesttest.Ada, palyra.AnswerDeny, nil)
	told := deny // what was signed is a deny, and told as an allow
	told.Answer = palyra.AnswerAllow
	hidden := signedVote(attesttest.Ada, palyra.AnswerAllow, func(v *palyra.Vote) { v.Answer = palyra.AnswerDeny })
	swapped := allow // the fields of the deny, around the signature of the allow
	swapped.Answer, swapped.Signature.Fields = palyra.AnswerDeny, deny.Signature.Fields
	other := signedVote(attesttest.Ada, palyra.AnswerDeny, func(v *palyra.Vote) {
		v.Signature.Intent.Method = "palyra.v1.GrantService/RevokeGrant"
	})
	pkix := signedVote(attesttest.Ada, palyra.AnswerAllow, func(v *palyra.Vote) {
		raw, _ := base64.StdEncoding.DecodeString(v.Signature.PublicKey)
		v.Signature.PublicKey = base64.StdEncoding.EncodeToString(append([]byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"), raw...))
	})
	nameless := signedVote(attesttest.Ada, palyra.AnswerAllow, func(v *palyra.Vote) { v.Signature.PublicKey = "" })
	bob := signedVote(attesttest.Bob, palyra.AnswerAllow, nil)
	decided := func(votes ...palyra.Vote) palyra.Event {
		return palyra.ApprovalDecided{Approval: allow.Approval, Answer: votes[0].Answer, By: "user:ada", Votes: votes}
	}
	for name, c := range map[string]struct {
		address string
		event   palyra.Event
		bad     bool
	}{
		"an allow":               {plain, decided(allow), true},
		"a key in another form":  {plain, decided(pkix), true},
		"a key that is not told": {plain, decided(nameless), true},
		"another spelling":       {"HTTP://192.0.2.7:7145", decided(allow), true},
		"an allow that a deny settles": {
			plain, palyra.ApprovalDecided{Approval: allow.Approval, Answer: palyra.AnswerAllow, By: "user:ada", Votes: []palyra.Vote{deny}}, true,
		},
		"an allow among others":       {plain, decided(bob, allow), true},
		"an allow that settles none":  {plain, palyra.ApprovalVoted{Vote: allow}, true},
		"a deny told as an allow":     {plain, decided(told), true},
		"an allow told as a deny":     {plain, decided(hidden), true},
		"a deny's fields on an allow": {plain, decided(swapped), true},
		"a deny of something else":    {plain, decided(other), true},
		"a lease's end":               {plain, palyra.GrantEnded{Lease: "L", By: "user:ada", Signature: &allow.Signature}, true},
		"a deny":                      {plain, decided(deny), false},
		"a deny that settles none":    {plain, palyra.ApprovalVoted{Vote: deny}, false},
		"another key's allow":         {plain, decided(bob), false},
		"an allow of a browser here":  {here, decided(allow), false},
		"an allow over HTTPS":         {"https://laptop.example", decided(allow), false},
	} {
		j := answered(t, c.address, c.event)
		export := exported(t, j, 0, 0)
		_, err := verifyExport(bytes.NewReader(export), trusted(t, attesttest.Daemon.Public()))
		if c.bad != (err != nil) || c.bad && !strings.Contains(err.Error(), "entry 2 has an invalid decision") {
			t.Errorf("%s: %v", name, err)
		}
		code, out, errs := runs(t, export, "--key", attesttest.Daemon.Public())
		if want := map[bool]int{false: 0, true: 1}[c.bad]; code != want || strings.Contains(out, "which keys only deny") {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
	j := answered(t, here, decided(allow), palyra.DevicePaired{Device: palyra.Device{
		ID: "dev-1", KeyID: attesttest.Ada.OperatorID(), PublicKey: attesttest.Ada.Public(), Address: plain,
	}})
	if _, err := verifyExport(bytes.NewReader(exported(t, j, 0, 0)), trusted(t, attesttest.Daemon.Public())); err == nil {
		t.Error("an allow before the pairing is told")
	}
	j = answered(t, plain, decided(allow))
	code, out, errs := runs(t, exported(t, j, 2, 2), "--key", attesttest.Daemon.Public())
	if code != 0 || !strings.Contains(out, "which keys only deny") {
		t.Errorf("without the pairing's entry: exit %d\n%s%s", code, out, errs)
	}
}
