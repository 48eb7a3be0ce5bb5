package client_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/client"
)

// teller is a daemon that tells what a test gives it.
type teller struct {
	palyrav1connect.UnimplementedToolServiceHandler
	news []*v1.CallToolResponse
}

func (d teller) CallTool(_ context.Context, _ *v1.CallToolRequest, stream *connect.ServerStream[v1.CallToolResponse]) error {
	for _, m := range d.news {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// told makes a call at a daemon that tells the news, and returns what was heard of it.
func told(t *testing.T, news ...*v1.CallToolResponse) (heard []string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	_, h := palyrav1connect.NewToolServiceHandler(teller{news: news})
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	c, err := client.Open(client.Config{Socket: socket})
	must(t, err)
	out, err := c.Call(t.Context(), client.CallRequest{Tool: "x"}, func(e client.CallEvent) {
		switch {
		case e.Accepted != nil:
			heard = append(heard, "accepted")
		case e.Running != nil:
			heard = append(heard, "running")
		case e.Output != nil:
			heard = append(heard, string(e.Output.Data))
		default:
			t.Errorf("heard %+v", e)
		}
	})
	if err != nil || out.Outcome != palyra.OutcomeFinished {
		t.Errorf("%+v %v", out, err)
	}
	return heard
}

var (
	wireAccepted = &v1.CallToolResponse{Event: &v1.CallToolResponse_Accepted{Accepted: &v1.CallAccepted{CallId: "C1"}}}
	wireRunning  = &v1.CallToolResponse{Event: &v1.CallToolResponse_Running{Running: &v1.CallRunning{}}}
	wireOutcome  = &v1.CallToolResponse{Event: &v1.CallToolResponse_Outcome{Outcome: &v1.Outcome{Outcome: "finished"}}}
)

func wireOutput(text string) *v1.CallToolResponse {
	return &v1.CallToolResponse{Event: &v1.CallToolResponse_Output{Output: &v1.CallOutput{Stream: "stdout", Data: []byte(text)}}}
}

// An event that a client does not know, as that of a daemon of a later version, is
// passed over, and the call ends as it does.
func TestAnEventOfALaterVersion(t *testing.T) {
	later := &v1.CallToolResponse{}
	later.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 999, protowire.BytesType), nil))
	if got := told(t, wireAccepted, later, wireRunning, later, wireOutcome); !slices.Equal(got, []string{"accepted", "running"}) {
		t.Errorf("heard %v", got)
	}
}

// A daemon of an earlier version does not say that a call runs; what the call prints
// does, once.
func TestACallOfAnEarlierVersionRuns(t *testing.T) {
	want := []string{"accepted", "running", "a", "b"}
	if got := told(t, wireAccepted, wireOutput("a"), wireOutput("b"), wireOutcome); !slices.Equal(got, want) {
		t.Errorf("heard %v, want %v", got, want)
	}
	if got := told(t, wireAccepted, wireRunning, wireOutput("a"), wireOutput("b"), wireOutcome); !slices.Equal(got, want) {
		t.Errorf("heard %v, want %v", got, want)
	}
}
