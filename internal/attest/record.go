package attest

import (
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"palyra"
	"palyra/internal/store"
)

//go:embed schema
var schemas embed.FS

// Schema returns the package's tables.
func Schema() store.Schema { return store.SchemaOf("attest", schemas) }

// Apply keeps the envelope of a finished call, in the transaction that records the finish. It refuses an
// event whose attestation is not the one it names: then nothing is recorded and the output stays withheld. It
// ignores other events.
func (a *Attester) Apply(tx *store.Tx, c *palyra.Call, e palyra.Event) error {
	f, ok := e.(palyra.CallFinished)
	if !ok {
		return nil
	}
	k, err := a.keptOf(f.Signed, alikeAs(c.Tool.Name, c.Proposal.Principal))
	if err != nil {
		return fmt.Errorf("attest: keep: %w", err)
	}
	if f.Call != c.ID || f.Signed.Call != c.ID || f.Signed.ID == "" || f.Signed.ID != f.AttestedAs ||
		f.Signed.Digest != f.Attestation || k.digest != f.Attestation {
		return errors.New("attest: keep: the attestation is not the one the line names")
	}
	packed, err := k.packed.Blob(tx)
	if err != nil {
		return fmt.Errorf("attest: keep: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO attestations (attestation_id, call_id, digest, envelope) VALUES (?, ?, ?, ?)`,
		string(f.Signed.ID), string(c.ID), string(f.Attestation), packed)
	if err != nil {
		return fmt.Errorf("attest: keep: %w", err)
	}
	return nil
}

// Get returns the attestation with that id, of the call with that id, or with that digest.
func (a *Attester) Get(ctx context.Context, id string) (palyra.Attestation, error) {
	var att palyra.Attestation
	var raw []byte
	err := a.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		err := tx.Get(`SELECT attestation_id, call_id, digest, envelope FROM attestations
			WHERE attestation_id = ? OR call_id = ? OR digest = ?`, []any{id, id, id}, &att.ID, &att.Call, &att.Digest, &raw)
		if err == nil {
			raw, err = a.shelf.Text(tx, raw)
		}
		return err
	})
	if errors.Is(err, store.ErrNoRows) {
		return palyra.Attestation{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no attestation of %q", palyra.Clip(id, 80)).
			WithRemedy("give the id of a call that ran, or of its attestation")
	}
	if err != nil {
		return palyra.Attestation{}, fmt.Errorf("attest: get: %w", err)
	}
	if err := json.Unmarshal(raw, &att.Envelope); err != nil {
		return palyra.Attestation{}, fmt.Errorf("attest: get: %w", err)
	}
	payload, err := base64.StdEncoding.DecodeString(att.Envelope.Payload)
	if err != nil {
		return palyra.Attestation{}, fmt.Errorf("attest: get: %w", err)
	}
	if att.Predicate, err = decodeStatement(payload); err != nil {
		return palyra.Attestation{}, fmt.Errorf("attest: get: %w", err)
	}
	return att, nil
}

// Envelope returns the text of a call's envelope, as it stands in its outcome.
func (a *Attester) Envelope(tx *store.Tx, call palyra.CallID) ([]byte, error) {
	var raw []byte
	err := tx.Get(`SELECT envelope FROM attestations WHERE call_id = ?`, []any{string(call)}, &raw)
	if err == nil {
		raw, err = a.shelf.Text(tx, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("attest: envelope of call %s: %w", call, err)
	}
	return raw, nil
}
