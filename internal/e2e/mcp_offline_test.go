//go:build linux

package e2e

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPServeBeforeTheDaemon: a client that starts first is served: by one tool that says what to do, and by all
// of them when a person has done it.
func TestMCPServeBeforeTheDaemon(t *testing.T) {
	d := newDaemon(t)
	changed := make(chan struct{}, 64)
	c := mcp.NewClient(&mcp.Implementation{Name: "early", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	ctx, done := context.WithTimeout(t.Context(), 3*waitMost)
	defer done()
	session, err := c.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(bin(t, "palyra"), d.mcpArgs()...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	names := func() (all []string) {
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			all = append(all, tool.Name)
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{"palyra_status"}) {
		t.Fatalf("%q", got)
	}
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "palyra_status"})
	if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "palyra up") {
		t.Fatalf("%v %+v", err, r)
	}
	d.mustStart()
	for !slices.Contains(names(), "palyra_echo") || slices.Contains(names(), "palyra_status") {
		select {
		case <-changed:
		case <-time.After(waitMost):
			t.Fatalf("no word of the daemon's tools: %q", names())
		}
	}
	r, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "palyra_echo", Arguments: map[string]any{"text": "hello"}})
	if err != nil || r.IsError {
		t.Errorf("%v %+v", err, r)
	}
}
