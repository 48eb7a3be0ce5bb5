package serve

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

const (
	artifactScheme = "palyra://artifact/"
	artifactTool   = palyra.ToolArtifactRead
)

// artifactURI names a page of an artifact; the first by the artifact alone.
func artifactURI(id palyra.ID, offset int64) string {
	if offset == 0 {
		return artifactScheme + string(id)
	}
	return fmt.Sprintf("%s%s/%d", artifactScheme, id, offset)
}

// parseArtifact reads such a name.
func parseArtifact(uri string) (id palyra.ID, offset int64, ok bool) {
	rest, ok := strings.CutPrefix(uri, artifactScheme)
	name, at, paged := strings.Cut(rest, "/")
	if !ok || name == "" || len(name) > maxID || strings.Trim(name, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
		return "", 0, false
	}
	if !paged {
		return palyra.ID(name), 0, true
	}
	n, err := strconv.ParseInt(at, 10, 64)
	return palyra.ID(name), n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == at
}

// artifacts offers outputs that were too large to deliver as resources, in pages.
// A session reads its own; others' do not exist for it.
func (s *Server) artifacts() {
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "artifact", Title: "Artifact", URITemplate: artifactScheme + "{id}",
		Description: "The first page of an output that was too large to deliver. _meta.next_uri names the next page.",
	}, s.readArtifact)
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "artifact-page", Title: "Page of an artifact", URITemplate: artifactScheme + "{id}/{offset}",
		Description: "The page of an artifact from a byte on.",
	}, s.readArtifact)
}

// readArtifact reads a page by the tool for it, so that it is judged and on record as every other call.
func (s *Server) readArtifact(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	id, offset, ok := parseArtifact(uri)
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	session := s.session(req.Session, req.ClientInfo())
	out, err := s.readPage(ctx, session, id, offset, "text")
	if err == nil && out.ReasonCode == palyra.ReasonMalformedInput { // it is not text
		out, err = s.readPage(ctx, session, id, offset, "base64")
	}
	if err != nil {
		e := palyra.AsError(err)
		s.Log.Warn("cannot read an artifact", "reason", e.Reason)
		return nil, fmt.Errorf("the artifact cannot be read now (%s)", e.Reason)
	}
	if out.Outcome != palyra.OutcomeFinished || out.ReasonCode != "" {
		s.Log.Info("an artifact was not read", "reason", out.ReasonCode)
		return nil, mcp.ResourceNotFoundError(uri)
	}
	return resource(uri, id, out.Output)
}

func (s *Server) readPage(ctx context.Context, session string, id palyra.ID, offset int64, encoding string) (palyra.Outcome, error) {
	args, err := json.Marshal(map[string]any{"artifact_id": id, "offset": offset, "encoding": encoding})
	if err != nil {
		return palyra.Outcome{}, err
	}
	return s.Backend.Call(ctx, client.CallRequest{
		Tool: artifactTool, Arguments: args, Workspace: s.Workspace, Session: session, Surface: palyra.SurfaceMCP,
		Key: "mcp/" + rand.Text(), NoWait: true,
	}, nil)
}

// resource is a page as a client reads it.
func resource(uri string, id palyra.ID, output json.RawMessage) (*mcp.ReadResourceResult, error) {
	var p struct {
		Encoding string `json:"encoding"`
		Content  string `json:"content"`
		Size     int64  `json:"size"`
		EOF      bool   `json:"eof"`
		Next     int64  `json:"next_offset"`
	}
	if err := json.Unmarshal(output, &p); err != nil {
		return nil, fmt.Errorf("the artifact cannot be read (%s)", palyra.ReasonInternal)
	}
	c := &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: p.Content, Meta: mcp.Meta{"size": p.Size, "eof": p.EOF}}
	if p.Encoding == "base64" {
		data, err := base64.StdEncoding.DecodeString(p.Content)
		if err != nil {
			return nil, fmt.Errorf("the artifact cannot be read (%s)", palyra.ReasonInternal)
		}
		c.MIMEType, c.Text, c.Blob = "application/octet-stream", "", data
	}
	if !p.EOF {
		c.Meta["next_uri"] = artifactURI(id, p.Next)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}
