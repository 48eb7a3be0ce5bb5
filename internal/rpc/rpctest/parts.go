package rpctest

import (
	"context"
	"encoding/json"
	"io"

	"palyra"
	"palyra/internal/rpc/wire"
)

type sessionsPart struct{ *Parts }

func (s sessionsPart) List(ctx context.Context, _ bool, _ palyra.SessionID, _ int) ([]palyra.Session, error) {
	s.note(ctx, "sessions")
	return []palyra.Session{{ID: "S1", Principal: "agent:local", OpenedAt: At}, {ID: "S2", Principal: "agent:ci", OpenedAt: At}}, nil
}

func (s sessionsPart) Get(ctx context.Context, id palyra.SessionID) (palyra.Session, error) {
	s.note(ctx, "session "+string(id))
	return palyra.Session{ID: id, OpenedAt: At}, nil
}

func (s sessionsPart) Close(ctx context.Context, id palyra.SessionID, by string) error {
	s.note(ctx, "close "+string(id)+" "+by)
	return nil
}

type workspacesPart struct{ *Parts }

func (w workspacesPart) Add(ctx context.Context, path, name string, by palyra.Principal, _ palyra.Signature) (palyra.Workspace, error) {
	w.note(ctx, "add workspace "+path)
	return palyra.Workspace{Path: path, Name: name, AddedBy: by, AddedAt: At}, nil
}

func (w workspacesPart) List(ctx context.Context) ([]palyra.Workspace, error) {
	w.note(ctx, "workspaces")
	return []palyra.Workspace{{Path: "/w", AddedAt: At}}, nil
}

func (w workspacesPart) Remove(ctx context.Context, path string, _ palyra.Principal, _ palyra.Signature) error {
	w.note(ctx, "remove workspace "+path)
	return nil
}

type ring struct{ *Parts }

func (r ring) List() []palyra.Key {
	r.note(context.Background(), "keys")
	return []palyra.Key{{ID: "k1", Use: "journal", CreatedAt: At}}
}

func (r ring) Export() ([]byte, error) {
	r.note(context.Background(), "export keys")
	return []byte("trust\x00\xff"), nil
}

func (r ring) Rotate(ctx context.Context, use palyra.KeyUse, _ palyra.Principal) (palyra.Key, error) {
	r.note(ctx, "rotate "+string(use))
	return palyra.Key{ID: "k2", Use: use, CreatedAt: At}, nil
}

func (r ring) Where(ctx context.Context) []wire.KeyPlace {
	r.note(ctx, "places of keys")
	return []wire.KeyPlace{{Use: "journal", Place: wire.PlaceFile}}
}

func (r ring) Move(ctx context.Context, to string, _ palyra.Principal, _ palyra.Signature) ([]wire.KeyPlace, error) {
	r.note(ctx, "move keys to "+to)
	return r.Where(ctx), nil
}

type log struct{ *Parts }

func (l log) Entries(ctx context.Context, q palyra.EntryFilter) ([]palyra.Entry, error) {
	l.note(ctx, "entries")
	var out []palyra.Entry
	for _, e := range l.Parts.Entries {
		fits := e.Seq >= q.From && e.Seq <= q.To && (q.Kind == "" || q.Kind == e.Kind) && (q.Call == "" || q.Call == e.Call)
		if fits && len(out) < q.Limit {
			out = append(out, e)
		}
	}
	return out, nil
}

func (l log) Watch(ctx context.Context, from int64, f func(palyra.Entry) error) error {
	l.note(ctx, "watch journal")
	for _, e := range l.Parts.Entries {
		if e.Seq >= from {
			if err := f(e); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (l log) Head(ctx context.Context) (wire.Head, error) {
	l.note(ctx, "head")
	return wire.Head{Size: int64(len(l.Parts.Entries)), Root: "sha256:11", Note: "n\n\n— x\n"}, nil
}

func (l log) Proof(ctx context.Context, _ int64) (json.RawMessage, error) {
	l.note(ctx, "proof")
	return json.RawMessage(`{"seq":1}`), nil
}

func (l log) Export(ctx context.Context, w io.Writer, _, _ int64, _ palyra.Principal) error {
	l.note(ctx, "export journal")
	_, err := io.WriteString(w, "segment\n")
	return err
}

func (l log) Verify(ctx context.Context, progress func(done, total int64)) (wire.Report, error) {
	l.note(ctx, "verify")
	progress(1, 2)
	progress(2, 2)
	return wire.Report{OK: true, Entries: 2}, nil
}

type policyPart struct{ *Parts }

func (p policyPart) Policy(ctx context.Context) (wire.Policy, error) {
	p.note(ctx, "policy")
	return wire.Policy{Bundle: "sha256:22", Files: []wire.PolicyFile{{Name: "a.cedar", Text: "permit(principal, action, resource);"}}}, nil
}

func (p policyPart) Explain(ctx context.Context, id palyra.ID, pr palyra.Proposal) (wire.Explanation, error) {
	p.note(ctx, "explain "+string(id)+string(pr.Tool))
	return wire.Explanation{
		Call: palyra.CallID(id), Verdict: palyra.Verdict{Effect: palyra.Ask, Policies: []palyra.PolicyHit{{ID: "x", Line: 3}}},
		Detail: json.RawMessage(`{"rungs":[1]}`), Plan: palyra.Plan{Tool: pr.Tool, Arguments: pr.Arguments},
	}, nil
}

// Snapshot is the one snapshot.
var Snapshot = palyra.Snapshot{
	AllowedTools: []string{}, MaxCallsPerRun: 64, Bundle: "sha256:33",
	ProcessRunner: map[string]any{"memory": json.Number("9007199254740993")},
}

func (p policyPart) Snapshot(ctx context.Context, _ palyra.Digest) (palyra.Digest, palyra.Snapshot, error) {
	p.note(ctx, "snapshot")
	d, err := Snapshot.Digest()
	return d, Snapshot, err
}

type attest struct{ *Parts }

// Envelope is the one envelope.
var Envelope = palyra.Envelope{
	PayloadType: palyra.PayloadType, Payload: "e30=",
	Signatures: []palyra.EnvelopeSignature{{KeyID: "k", Sig: "s"}},
}

func (a attest) Get(ctx context.Context, name string) (palyra.Attestation, error) {
	a.note(ctx, "attestation "+name)
	return palyra.Attestation{ID: "T1", Call: "C1", Envelope: Envelope, Predicate: palyra.Predicate{CallID: "C1", ExitCode: 3}}, nil
}
