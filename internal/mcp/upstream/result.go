package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/show"
)

// Output is an agent's part of a call: what the server returned. Bytes are kept as artifacts.
type Output struct {
	Content    []Item `json:"content"`
	Structured any    `json:"structured,omitempty"`
	IsError    bool   `json:"is_error,omitempty"`
	Omitted    int    `json:"items_left_out,omitempty"`
}

// Item is one piece of it.
type Item struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	MIMEType string    `json:"mime_type,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Size     int       `json:"size,omitempty"`
	Artifact palyra.ID `json:"artifact_id,omitempty"`
	Note     string    `json:"note,omitempty"`
}

const (
	maxItems    = 256
	maxLabel    = 2048
	endBytes    = 4 << 10
	keepTimeout = 30 * time.Second
)

// deliver fills a result with what the server returned, within the plan's cap.
func (r *Registry) deliver(ctx context.Context, c *palyra.Call, p palyra.Plan, got *mcp.CallToolResult, res *palyra.Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	k := converter{r, ctx, c}
	out := Output{Content: []Item{}, Structured: got.StructuredContent, IsError: got.IsError}
	for i, piece := range got.Content {
		if i == maxItems {
			out.Omitted = len(got.Content) - maxItems
			break
		}
		out.Content = append(out.Content, k.item(piece))
	}
	raw, err := encode(out)
	if err != nil {
		failure := palyra.RefusalOf(palyra.LayerTier, failed(string(p.Tool), "its answer cannot be written as JSON"))
		res.Failure, res.ExitCode = &failure, 1
		return
	}
	raw = r.Mask.JSON(raw)
	res.Output, res.Truncated = k.cut(raw, int(p.Limits.OutputBytes))
	res.OutputDigest = palyra.SumBytes(raw)
	if out.Omitted > 0 {
		res.Truncated = true
	}
	if got.IsError {
		failure := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.Invalid, palyra.ReasonUpstreamFailed, "the tool says that it failed").
			WithRemedy("read its output"))
		res.Failure, res.ExitCode = &failure, 1
	}
}

// converter makes items of a result, and keeps output that is not delivered.
type converter struct {
	*Registry
	ctx  context.Context
	call *palyra.Call
}

// item is a piece as the agent gets it.
func (k converter) item(c mcp.Content) Item {
	switch c := c.(type) {
	case *mcp.TextContent:
		return Item{Type: "text", Text: c.Text}
	case *mcp.ImageContent:
		return k.bytes("image", c.MIMEType, c.Data)
	case *mcp.AudioContent:
		return k.bytes("audio", c.MIMEType, c.Data)
	case *mcp.ResourceLink:
		return Item{
			Type: "resource_link", URI: palyra.Clip(c.URI, maxLabel), Name: palyra.Clip(c.Name, maxLabel),
			MIMEType: palyra.Clip(c.MIMEType, 128), Text: palyra.Clip(c.Description, maxLabel),
		}
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return Item{Type: "resource"}
		}
		i := Item{Type: "resource", Text: c.Resource.Text}
		if len(c.Resource.Blob) > 0 {
			i = k.bytes("resource", c.Resource.MIMEType, c.Resource.Blob)
		}
		i.URI, i.MIMEType = palyra.Clip(c.Resource.URI, maxLabel), palyra.Clip(c.Resource.MIMEType, 128)
		return i
	}
	return Item{Type: "unknown", Note: "a kind of content that Palyra does not know"}
}

// bytes keeps output that is not text.
func (k converter) bytes(kind, mime string, data []byte) Item {
	i := Item{Type: kind, MIMEType: palyra.Clip(mime, 128), Size: len(data)}
	if len(data) == 0 {
		return i
	}
	id, err := k.Artifacts.Keep(k.ctx, k.call.Proposal.Session, k.call.ID, k.Mask.Bytes(data))
	if err != nil {
		i.Note = "could not be kept: " + palyra.AsError(err).Text
		return i
	}
	i.Artifact, i.Note = id, "read it with palyra.artifact.read"
	return i
}

// cut stands in for an output over the cap.
func (k converter) cut(raw json.RawMessage, most int) (json.RawMessage, bool) {
	if len(raw) <= most {
		return raw, false
	}
	end := min(endBytes, most/8)
	cut := struct {
		Truncated bool          `json:"truncated"`
		Artifact  palyra.ID     `json:"artifact_id"`
		Size      int           `json:"size"`
		SHA256    palyra.Digest `json:"sha256"`
		Head      string        `json:"head"`
		Tail      string        `json:"tail"`
		Note      string        `json:"note"`
	}{
		Truncated: true, Size: len(raw), SHA256: palyra.SumBytes(raw), Head: show.Head(raw, end), Tail: show.Tail(raw, end),
		Note: "the output is over the limit; read it in pages with palyra.artifact.read",
	}
	id, err := k.Artifacts.Keep(k.ctx, k.call.Proposal.Session, k.call.ID, raw)
	if err != nil { // the tool has run: say what there is
		cut.Note = "the output is over the limit and could not be kept: " + palyra.AsError(err).Text
	}
	cut.Artifact = id
	b, err := encode(cut)
	if err != nil {
		return nil, true
	}
	return b, true
}

func encode(v any) (json.RawMessage, error) {
	text, err := canon.JSON(v)
	if err != nil {
		return nil, fmt.Errorf("upstream: encode: %w", err)
	}
	return text, nil
}
