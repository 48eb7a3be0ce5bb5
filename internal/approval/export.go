package approval

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/store"
)

// Format is the layout of an export.
type Format string

// The formats. Both hold the same lines; JSON frames them as one array.
const (
	NDJSON Format = "ndjson"
	JSON   Format = "json"
)

// Signer signs the end of an export.
type Signer interface {
	// KeyID names the key.
	KeyID() string
	// Sign returns the Ed25519 signature of msg.
	Sign(msg []byte) ([]byte, error)
}

// An export is a header line, a line per approval in the order in which they
// were asked, and a signed trailer. Every line but the header carries the hash
// of the line before it, so that the trailer's signature holds all bytes.
const (
	exportFormat  = "palyra.approvals/v1"
	lineDomain    = "approvals-line/v1"
	trailerDomain = "approvals-export/v1"

	kindHeader   = "header"
	kindApproval = "approval"
	kindTrailer  = "trailer"
)

type exportHeader struct {
	Kind       string           `json:"kind"`
	Format     string           `json:"format"`
	Layout     Format           `json:"layout"`
	ExportedAt string           `json:"exported_at"`
	By         palyra.Principal `json:"by"`
	Count      int64            `json:"count"`
}

type exportLine struct {
	Kind     string          `json:"kind"`
	Seq      int64           `json:"seq"`
	Prev     palyra.Digest   `json:"prev"`
	Approval palyra.Approval `json:"approval"`
}

type exportTrailer struct {
	Kind  string        `json:"kind"`
	Count int64         `json:"count"`
	Prev  palyra.Digest `json:"prev"`
	KeyID string        `json:"key_id"`
	Sig   string        `json:"sig"` // base64
}

// signed returns the bytes that the signature is over.
func (t exportTrailer) signed() ([]byte, error) {
	t.Sig = ""
	b, err := canon.Marshal(t)
	return append([]byte("palyra/"+trailerDomain+"\x00"), b...), err
}

// Export writes all approvals asked so far, each as it stands when it is read, and returns how many. That they
// leave is journaled before the first byte does. Without its trailer an export is not valid: a broken one cannot be
// mistaken for a whole one.
func (d *Desk) Export(ctx context.Context, w io.Writer, format Format, by palyra.Principal, s Signer) (int64, error) {
	if format != NDJSON && format != JSON {
		return 0, invalid(palyra.ReasonMalformedInput, "the format must be ndjson or json")
	}
	var count int64
	err := d.cfg.DB.Write(ctx, "approvals.exported", func(tx *store.Tx) error {
		if err := tx.Get(`SELECT COALESCE(MAX(seq), 0) FROM approvals`, nil, &count); err != nil {
			return err
		}
		return d.journal(tx, palyra.ApprovalsExported{By: by, Count: count})
	})
	if err != nil {
		return 0, wrap("export", err)
	}
	out := &chain{w: bufio.NewWriter(w), format: format}
	header := exportHeader{
		Kind: kindHeader, Format: exportFormat, Layout: format, ExportedAt: palyra.Time(d.clock.read().time()), By: by, Count: count,
	}
	if err := out.add(header); err != nil {
		return 0, wrap("export", err)
	}
	for seq := int64(1); seq <= count; seq++ {
		a, err := d.approvalAt(ctx, seq)
		if err == nil {
			err = out.add(exportLine{Kind: kindApproval, Seq: seq, Prev: out.prev, Approval: a})
		}
		if err != nil {
			return seq - 1, wrap("export", err)
		}
	}
	return count, wrap("export", out.close(exportTrailer{Kind: kindTrailer, Count: count, Prev: out.prev, KeyID: s.KeyID()}, s))
}

// approvalAt returns the approval that was asked n-th. One read each: a slow reader of the export must not
// hold the store.
func (d *Desk) approvalAt(ctx context.Context, seq int64) (a palyra.Approval, err error) {
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		var id palyra.ApprovalID
		if err := tx.Get(`SELECT id FROM approvals WHERE seq = ?`, []any{seq}, &id); err != nil {
			return err
		}
		r, _, err := withDocuments(tx, id)
		a = r.Approval
		return err
	})
	return a, err
}

// chain writes lines, each with the hash of the one before.
type chain struct {
	w      *bufio.Writer
	format Format
	prev   palyra.Digest
}

func (c *chain) add(line any) error {
	b, err := canon.JSON(line)
	if err != nil {
		return err
	}
	switch {
	case c.format == JSON && c.prev == "":
		_, err = c.w.WriteString("[\n")
	case c.format == JSON:
		_, err = c.w.WriteString(",\n")
	case c.prev != "":
		err = c.w.WriteByte('\n')
	}
	if err != nil {
		return err
	}
	c.prev = hashLine(b)
	_, err = c.w.Write(b)
	return err
}

func (c *chain) close(t exportTrailer, s Signer) error {
	msg, err := t.signed()
	if err != nil {
		return err
	}
	sig, err := s.Sign(msg)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	t.Sig = base64.StdEncoding.EncodeToString(sig)
	if err := c.add(t); err != nil {
		return err
	}
	end := "\n"
	if c.format == JSON {
		end = "\n]\n"
	}
	if _, err := c.w.WriteString(end); err != nil {
		return err
	}
	return c.w.Flush()
}

func hashLine(b []byte) palyra.Digest { return palyra.Digest(canon.Sum(lineDomain, b)) }
