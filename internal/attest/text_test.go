package attest

import (
	"encoding/json"
	"testing"

	"palyra"
)

// Property: an envelope's text, and an outcome with one, is what encoding/json writes.
func TestTextOfAnEnvelope(t *testing.T) {
	one := []palyra.EnvelopeSignature{{KeyID: "k<1>", Sig: "c2ln"}}
	for name, e := range map[string]palyra.Envelope{
		"plain": {PayloadType: palyra.PayloadType, Payload: "eyJhIjoxfQ==", Signatures: one}, "nothing": {}, "unsigned": {Payload: "YQ=="},
		"no base64": {Payload: "<\"\xff>", Signatures: one}, "every character": {Payload: "AZaz09+/=", Signatures: one},
		"beside them": {Payload: "@[`{.:,*", Signatures: one}, "none": {Payload: "-_", Signatures: []palyra.EnvelopeSignature{}},
	} {
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := textOf(e); err != nil || string(got) != string(want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
		out, err := palyra.Outcome{Stdout: "<x>", Attestation: &e}.Marshal()
		var back palyra.Outcome
		if err != nil || json.Unmarshal(out, &back) != nil || back.Stdout != "<x>" {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
}
