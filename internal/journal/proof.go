package journal

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/pack"
	"palyra/internal/store"
)

const proofFormat = "palyra-journal-proof/1"

// maxProof bounds a proof's text: an entry at its largest and the hashes.
const maxProof = 1 << 20

// Proof shows that an entry stands in the journal, to anyone who has the journal's public key: the entry, the RFC
// 6962 audit path from its leaf to the root, and the checkpoint with that root. Its JSON form is what VerifyProof
// takes.
type Proof struct {
	Format     string          `json:"format"` // palyra-journal-proof/1
	Entry      palyra.Entry    `json:"entry"`
	Leaf       palyra.Digest   `json:"leaf"`
	Index      int64           `json:"index"` // of the leaf: seq-1
	Size       int64           `json:"size"`  // of the checkpoint's tree
	Hashes     []palyra.Digest `json:"hashes"`
	Checkpoint string          `json:"checkpoint"`
}

// Proof returns the proof that entry seq is in the journal as it now stands.
func (j *Journal) Proof(ctx context.Context, seq int64) (Proof, error) {
	s, _ := j.committed()
	if seq < 1 || seq > s.head.size {
		return Proof{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the journal has no entry %d", seq).
			WithRemedy("its entries are 1 to %d", s.head.size)
	}
	var entry []byte
	var path tlog.RecordProof
	err := j.db.Read(ctx, func(tx *store.Tx) (err error) {
		if err := tx.Get("SELECT entry FROM journal_entries WHERE seq = ?", []any{seq}, &entry); err != nil {
			return err
		}
		if entry, err = pack.AppendLine(nil, entry); err != nil {
			return err
		}
		path, err = tlog.ProveRecord(s.head.size, seq-1, s.hashes(tx))
		return err
	})
	if err != nil {
		return Proof{}, unproven(seq, err)
	}
	leaf := tlog.RecordHash(entry)
	if err := tlog.CheckRecord(path, s.head.size, s.head.root, seq-1, leaf); err != nil {
		return Proof{}, unproven(seq, err)
	}
	h, err := j.checkpointed(s.head)
	if err != nil {
		return Proof{}, err
	}
	p := Proof{Format: proofFormat, Leaf: digest(leaf), Index: seq - 1, Size: s.head.size, Hashes: digests(path), Checkpoint: h.note}
	p.Entry, err = decode(entry)
	return p, err
}

func unproven(seq int64, err error) error {
	if e := (*palyra.Error)(nil); errors.As(err, &e) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "entry %d cannot be proven: the journal was changed", seq).
		WithRemedy("run 'palyra journal verify'").WithCause(err)
}

func digests(list []tlog.Hash) []palyra.Digest {
	out := make([]palyra.Digest, len(list))
	for i, h := range list {
		out[i] = digest(h)
	}
	return out
}

func hashes(list []palyra.Digest) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(list))
	for i, d := range list {
		h, ok := parseDigest(d)
		if !ok {
			return nil, errors.New("a hash is malformed")
		}
		out[i] = h
	}
	return out, nil
}

// hashes reads the tree's hashes from the tiles. Every tile is checked against
// the root before a hash is taken from it.
func (s state) hashes(tx *store.Tx) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: s.tree.size, Hash: s.head.root}, tiles{tx: tx, tree: s.tree})
}

// tiles gives the tree's tiles: full ones from the table, unfinished ones from the right edge.
type tiles struct {
	tx   *store.Tx
	tree tree
}

// Height implements tlog.TileReader.
func (tiles) Height() int { return tileHeight }

// SaveTiles implements tlog.TileReader; there is nothing to cache.
func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadTiles implements tlog.TileReader.
func (t tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(list))
	for i, want := range list {
		if want.W < tileWidth && want.N == t.tree.size>>((want.L+1)*tileHeight) && want.L < len(t.tree.edge) &&
			want.W <= len(t.tree.edge[want.L]) {
			out[i] = joinHashes(t.tree.edge[want.L][:want.W])
			continue
		}
		err := t.tx.Get("SELECT hashes FROM journal_tiles WHERE level = ? AND n = ?", []any{want.L, want.N}, &out[i])
		if err != nil {
			return nil, fmt.Errorf("journal: tile %d/%d: %w", want.L, want.N, err)
		}
		if len(out[i]) != tileBytes {
			return nil, fmt.Errorf("journal: tile %d/%d is damaged", want.L, want.N)
		}
		out[i] = out[i][:want.W*tlog.HashSize]
	}
	return out, nil
}

// VerifyProof checks a proof's JSON text with the given verifier lines. It needs
// no journal. An error is returned whenever the report has a problem.
func VerifyProof(raw []byte, verifiers []string) (Report, error) {
	k, err := parseKeys(verifiers)
	if err != nil {
		return Report{}, err
	}
	r := Report{Source: "proof"}
	if err := r.proof(raw, k); err != nil {
		r.Problem = problem(r.From, "%v", err)
	}
	return r.result()
}

// proof checks everything a proof says; nothing in it is believed before the checkpoint's signature is.
func (r *Report) proof(raw []byte, k keys) error {
	p, entry, err := parseProof(raw)
	if err != nil {
		return err
	}
	h, err := k.openHead(p.Checkpoint)
	if err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	f, err := parseEntry(entry)
	if err != nil {
		return err
	}
	leaf := tlog.RecordHash(entry)
	path, err := hashes(p.Hashes)
	switch {
	case err != nil:
		return err
	case p.Format != proofFormat:
		return errors.New("not a proof of a journal entry")
	case p.Size != h.size:
		return errors.New("its size is not the checkpoint's")
	case f.seq < 1 || f.seq-1 != p.Index:
		return errors.New("its index is not the entry's")
	case p.Leaf != digest(leaf):
		return errors.New("its leaf hash is not the entry's")
	}
	if err := tlog.CheckRecord(path, h.size, h.root, p.Index, leaf); err != nil {
		return errors.New("its hashes do not lead from the entry to the checkpoint's root")
	}
	r.covers(h)
	r.From, r.To = f.seq, f.seq
	return nil
}

// parseProof reads a proof strictly and returns the entry's canonical bytes.
func parseProof(raw []byte) (p Proof, entry []byte, err error) {
	if len(raw) > maxProof {
		return p, nil, errors.New("longer than a proof can be")
	}
	v, err := canon.Parse(raw)
	if err != nil {
		return p, nil, err
	}
	m, ok := v.(map[string]any)
	if !ok || !hasExactly(m, "checkpoint", "entry", "format", "hashes", "index", "leaf", "size") {
		return p, nil, errors.New("not a proof of a journal entry")
	}
	if entry, err = canon.Append(nil, m["entry"]); err != nil {
		return p, nil, err
	}
	if err := unmarshalStrict(raw, &p); err != nil {
		return p, nil, err
	}
	return p, entry, nil
}
