package client

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// TailJournal calls f with entries in order until the last one, the end of ctx or an error of f, which it returns.
func (c *Client) TailJournal(ctx context.Context, r TailRequest, f func(palyra.Entry) error) error {
	stream, err := c.journal().TailJournal(ctx, &v1.TailJournalRequest{
		From: r.From, Kind: r.Kind, CallId: string(r.Call), Limit: r.Limit, Follow: r.Follow,
	})
	return receiveAll(stream, err, func(m *v1.TailJournalResponse) error {
		e, err := word[palyra.Entry](m.GetEntry(), nil)
		if err != nil {
			return err
		}
		return f(e)
	})
}

// VerifyJournal has the daemon check its whole journal. progress may be nil.
func (c *Client) VerifyJournal(ctx context.Context, progress func(done, total int64)) (Report, error) {
	stream, err := c.journal().VerifyJournal(ctx, &v1.VerifyJournalRequest{})
	var report *Report
	err = receiveAll(stream, err, func(m *v1.VerifyJournalResponse) error {
		if p := m.GetProgress(); p != nil && progress != nil {
			progress(p.GetDone(), p.GetTotal())
		}
		if m.GetReport() == nil {
			return nil
		}
		r, err := word[Report](m.GetReport(), nil)
		report = &r
		return err
	})
	switch {
	case err != nil:
		return Report{}, err
	case report == nil:
		return Report{}, lostConnection(io.ErrUnexpectedEOF)
	}
	return *report, nil
}

// ExportJournal writes the entries from..to as a sealed segment to w (signed); to 0 means up to the head.
func (c *Client) ExportJournal(ctx context.Context, from, to int64, w io.Writer) error {
	stream, err := c.journal().ExportJournal(ctx, &v1.ExportJournalRequest{From: from, To: to})
	return receiveAll(stream, err, func(m *v1.ExportJournalResponse) error {
		_, err := w.Write(m.GetChunk())
		return err
	})
}

// Proof returns a self-contained inclusion proof of an entry, as JSON.
func (c *Client) Proof(ctx context.Context, seq int64) ([]byte, error) {
	res, err := c.journal().GetProof(ctx, &v1.GetProofRequest{Seq: seq})
	return []byte(res.GetProof()), failure(err)
}

// Head returns the journal's signed checkpoint.
func (c *Client) Head(ctx context.Context) (Head, error) {
	res, err := c.journal().GetHead(ctx, &v1.GetHeadRequest{})
	return word[Head](res.GetHead(), err)
}

// Attestation returns the attestation that the reference names.
func (c *Client) Attestation(ctx context.Context, ref AttestationRef) (palyra.Attestation, error) {
	res, err := c.attestation().GetAttestation(ctx, &v1.GetAttestationRequest{
		AttestationId: string(ref.ID), CallId: string(ref.Call), Digest: string(ref.Digest),
	})
	return word[palyra.Attestation](res.GetAttestation(), err)
}

// Policy returns the bundle in force.
func (c *Client) Policy(ctx context.Context) (Policy, error) {
	res, err := c.policy().GetPolicy(ctx, &v1.GetPolicyRequest{})
	return word[Policy](res.GetPolicy(), err)
}

// Why explains policy's answer to a call.
func (c *Client) Why(ctx context.Context, r WhyRequest) (Explanation, error) {
	res, err := c.policy().ExplainCall(ctx, &v1.ExplainCallRequest{
		CallId: string(r.ID), Principal: string(r.Principal), Tool: string(r.Tool), Arguments: string(r.Arguments),
		Workspace: r.Workspace, Door: string(r.Surface),
	})
	return word[Explanation](res.GetExplanation(), err)
}

// Snapshot returns the security configuration of a digest; empty: the one in force.
func (c *Client) Snapshot(ctx context.Context, d palyra.Digest) (palyra.Snapshot, error) {
	res, err := c.policy().GetSnapshot(ctx, &v1.GetSnapshotRequest{Digest: string(d)})
	if err != nil {
		return palyra.Snapshot{}, failure(err)
	}
	var s palyra.Snapshot
	dec := json.NewDecoder(strings.NewReader(res.GetSnapshot()))
	dec.UseNumber() // so that the digest of the result is the one that was asked for
	if err := dec.Decode(&s); err != nil {
		return palyra.Snapshot{}, failure(err)
	}
	return s, nil
}
