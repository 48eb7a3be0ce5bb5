package tool

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
	"palyra/internal/show"
)

// Cut is the replacement of an output over the cap. The whole is an artifact, readable in pages;
// its digest is bound by the attestation.
type Cut struct {
	Truncated bool          `json:"truncated"` // always true
	Artifact  palyra.ID     `json:"artifact_id"`
	Size      int           `json:"size"`
	SHA256    palyra.Digest `json:"sha256"`
	Head      string        `json:"head"`
	Tail      string        `json:"tail"`
	Note      string        `json:"note"`
}

const (
	endBytes    = 4 << 10          // most bytes of each end that is shown
	keepTimeout = 30 * time.Second // for an artifact whose caller is gone
)

// deliver returns out, or its cut form when it is over the plan's cap. The
// artifact is kept even when the call ran out of time meanwhile.
func (r *Runner) deliver(ctx context.Context, c *palyra.Call, p palyra.Plan, out json.RawMessage) (json.RawMessage, bool) {
	most := int(p.Limits.OutputBytes)
	if len(out) <= most {
		return out, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	end := min(endBytes, most/8)
	cut := Cut{
		Truncated: true, Size: len(out), SHA256: palyra.SumBytes(out), Head: show.Head(out, end), Tail: show.Tail(out, end),
		Note: "the output is over the limit; read it in pages with palyra.artifact.read",
	}
	id, err := r.Artifacts.Keep(ctx, c.Proposal.Session, c.ID, out)
	if err != nil { // the tool has run: deliver what there is
		cut.Note = "the output is over the limit and could not be kept: " + palyra.AsError(err).Text
	}
	cut.Artifact = id
	b, err := Encode(cut)
	if err != nil { // strings and numbers always encode
		return nil, true
	}
	return b, true
}
