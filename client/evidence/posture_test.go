package evidence_test

import (
	"encoding/json"
	"testing"

	"palyra"
	"palyra/client/evidence"
	"palyra/internal/posture"
)

func TestPosture(t *testing.T) {
	d, other := newDaemon(t), newDaemon(t)
	p := palyra.Posture{
		StateID: "01STATE", At: "2026-11-15T10:00:00Z", Facts: map[string]string{"kernel": "6.18"},
		Tiers: []palyra.TierPosture{
			{Tier: palyra.TierB, Available: true, Probes: []palyra.Probe{{Name: "secret", Held: true, Detail: "refused: EACCES"}}},
		},
	}
	signed, err := posture.Sign(d.ring.Signer("attestation"), p)
	d.must(err)
	raw, err := json.Marshal(signed.Envelope)
	d.must(err)
	verify := func(b []byte, tr evidence.Trust) error {
		got, err := evidence.VerifyPosture(b, tr)
		if err == nil && (got.Digest != signed.Digest || !got.Posture.Held()) {
			t.Errorf("%+v", got)
		}
		return err
	}
	check(t, raw, d.trust, other.trust, verify)
	for _, k := range d.ring.List() {
		tr, ok := evidence.ParseKey(k.PublicKey)
		if !ok {
			t.Fatal(k.PublicKey)
		}
		if err := verify(raw, tr); (err == nil) != (k.Use == "attestation") {
			t.Errorf("the bare %s key: %v", k.Use, err)
		}
	}
	// An attestation of a call is no posture, nor the other way round.
	if _, err := evidence.VerifyAttestation(raw, d.trust); err == nil {
		t.Error("a posture was taken for an attestation")
	}
	// A key for the journal does not count, even where it signed.
	wrong, err := posture.Sign(d.ring.Signer("journal"), p)
	d.must(err)
	raw, err = json.Marshal(wrong.Envelope)
	d.must(err)
	if verify(raw, d.trust) == nil {
		t.Error("the journal's key was believed")
	}
}
