package attest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/passkey"
)

// decideMethod is the one method whose signature is an answer.
const decideMethod = "palyra.v1.ApprovalsService/DecideApproval"

// vote checks one answer: that a person's key signed it, for this daemon and for
// what ran, and that the daemon read it as it was meant.
func (v *verifier) vote(n int, vote palyra.Vote) error {
	bad := func(what string) error { return fail("vote %d: %s", n, what) }
	d, s := v.predicate.Decision, vote.Signature
	if err := v.voteSignature(n, s); err != nil {
		return err
	}
	switch {
	case s.Intent.Method != decideMethod:
		return bad("the signature is not for a decision")
	case s.Intent.Audience != v.predicate.StateID:
		return bad("it was given to another daemon")
	case s.Intent.PlanDigest != d.Digest:
		return bad("it was given for another plan")
	case d.Terms.PlanDigest == "" && (!covers(d.Terms, vote.Widen) || !coversManyPlans(vote.Scope)):
		return bad("it was given for one plan, and the grant covers more")
	case vote.Digest != s.Intent.PlanDigest:
		return bad("the plan it names is not the one that was signed")
	case vote.Approval == "" || vote.Approval != d.Approval:
		return bad("it belongs to another approval")
	case vote.Answer != palyra.AnswerAllow:
		return bad("it is not an allow")
	case vote.By.IsAgent():
		return bad("an agent gave it")
	}
	return signedFields(n, vote)
}

func (v *verifier) voteSignature(n int, s palyra.Signature) error {
	bad := func(what string) error { return fail("vote %d: %s", n, what) }
	pub, err := canon.Base64(s.PublicKey, 0)
	if err != nil {
		return bad("the public key is not canonical base64")
	}
	if s.Intent.KeyID != operatorID(pub) {
		return bad("the key id is not the key's")
	}
	body, err := palyra.IntentBody(s.Fields)
	if err != nil || body != s.Intent.Body {
		return bad("the fields are not the ones that were signed")
	}
	msg, err := s.Intent.Bytes()
	if err != nil {
		return bad("the intent cannot be read")
	}
	if err := signed(s, pub, msg); err != nil {
		return bad(err.Error())
	}
	if !v.pinned(pub) {
		return bad("the approver's key is not one of the operator keys given")
	}
	return nil
}

// signed checks that a key signed a message: that of a passkey by its assertion, any other the message itself.
func signed(s palyra.Signature, pub, msg []byte) error {
	if s.Assertion != nil {
		key, err := passkey.ParseKey(s.PublicKey)
		if err == nil {
			_, err = key.Check(msg, s.Sig, s.Assertion.AuthenticatorData, s.Assertion.ClientData)
		}
		return err
	}
	sig, err := canon.Base64(s.Sig, ed25519.SignatureSize)
	if err != nil || len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, msg, sig) {
		return errors.New("the approver's signature does not match")
	}
	return nil
}

// signedFields compares the vote with the fields that were signed, by the names of the request. A field that is
// empty is left out; one that is not known here is refused, because nobody could say what was agreed to.
func signedFields(n int, vote palyra.Vote) error {
	want := []struct{ name, value string }{
		{"approval_id", string(vote.Approval)},
		{"answer", string(vote.Answer)},
		{"plan_digest", string(vote.Digest)},
		{"scope", string(vote.Scope)},
		{"ttl_ms", number(vote.TTLMS)},
		{"widen", vote.Widen},
		{"uses", number(vote.Uses)},
		{"reason", vote.Reason},
	}
	known := map[string]bool{"method": true} // the surface is the daemon's to say
	for _, w := range want {
		known[w.name] = true
		got, _ := text(w.name, vote.Signature.Fields[w.name])
		if w.name == "scope" && got == "" && w.value == string(palyra.ScopeOnce) {
			continue // the narrowest needs no word
		}
		if got != w.value {
			return fail("vote %d: another %s was signed", n, w.name)
		}
	}
	for name, value := range vote.Signature.Fields {
		if _, ok := text(name, value); !ok || !known[name] {
			return fail("vote %d: a field was signed that is not known here", n)
		}
	}
	return nil
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// text returns a signed field as text, if it is of its kind and not empty: an
// integer for times and counts, else a string.
func text(name string, v any) (string, bool) {
	if name == "ttl_ms" || name == "uses" {
		n, ok := v.(json.Number)
		return n.String(), ok
	}
	s, ok := v.(string)
	return s, ok && s != ""
}

// operatorID names an approver's public key: "op-" and the first 32 hex digits of its SHA-256.
func operatorID(pub []byte) string {
	h := sha256.Sum256(pub)
	return "op-" + hex.EncodeToString(h[:16])
}
