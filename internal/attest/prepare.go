package attest

import (
	"slices"

	"palyra"
	"palyra/internal/pack"
)

// maxSigned bounds the envelopes that were signed and not kept yet. Calls whose records failed leave theirs behind.
const maxSigned = 1024

// kept is an envelope as it is kept, made before the transaction that keeps it: others wait for that.
type kept struct {
	envelope palyra.Envelope
	digest   palyra.Digest // of its text
	packed   pack.Packed
}

// prepare remembers what Apply will keep.
func (a *Attester) prepare(att palyra.Attestation, raw []byte, kind string) {
	k := kept{envelope: att.Envelope, digest: att.Digest, packed: a.shelf.Pack(kind, raw)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.signed) >= maxSigned {
		clear(a.signed)
	}
	a.signed[att.ID] = k
}

// keptOf returns an attestation as it is kept. One that is not what was signed here under its id is looked at anew.
func (a *Attester) keptOf(att palyra.Attestation, kind string) (kept, error) {
	a.mu.Lock()
	k, ok := a.signed[att.ID]
	delete(a.signed, att.ID)
	a.mu.Unlock()
	e := att.Envelope
	if ok && e.PayloadType == k.envelope.PayloadType && e.Payload == k.envelope.Payload && slices.Equal(e.Signatures, k.envelope.Signatures) {
		return k, nil
	}
	raw, err := textOf(e)
	if err != nil {
		return kept{}, err
	}
	return kept{envelope: e, digest: palyra.SumBytes(raw), packed: a.shelf.Pack(kind, raw)}, nil
}

// alikeAs says which envelopes an envelope is probably like.
func alikeAs(tool palyra.ToolName, who palyra.Principal) string {
	return string(tool) + " " + string(who)
}
