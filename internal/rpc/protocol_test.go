package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"go.uber.org/goleak"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Every protocol that the doors speak carries unary calls, streams and errors
// with their details.
func TestProtocols(t *testing.T) {
	b := newBench(t, rpc.New)
	for name, c := range map[string]struct {
		http2 bool
		opts  []connect.ClientOption
	}{
		"connect":         {false, nil},
		"connect, http2":  {true, nil},
		"connect, json":   {false, []connect.ClientOption{connect.WithCodec(wire.Codec{})}},
		"standard json":   {false, []connect.ClientOption{connect.WithProtoJSON()}},
		"grpc":            {true, []connect.ClientOption{connect.WithGRPC()}},
		"grpc, json":      {true, []connect.ClientOption{connect.WithGRPC(), connect.WithProtoJSON()}},
		"grpc-web":        {false, []connect.ClientOption{connect.WithGRPCWeb()}},
		"grpc-web, http2": {true, []connect.ClientOption{connect.WithGRPCWeb()}},
		"connect, gzip":   {false, []connect.ClientOption{connect.WithSendGzip()}},
	} {
		t.Run(name, func(t *testing.T) {
			tools := palyrav1connect.NewToolServiceClient(b.unix("agent", c.http2), "http://palyra", c.opts...)
			list, err := tools.ListTools(t.Context(), &v1.ListToolsRequest{})
			if err != nil || list.GetTools()[0].GetInputSchema() != `{"type":"object","maximum":9007199254740993}` {
				t.Errorf("%v %v", list, err)
			}
			stream, err := tools.CallTool(t.Context(), &v1.CallToolRequest{Tool: "palyra.echo", Arguments: `{"n":9007199254740993}`})
			if err != nil {
				t.Fatal(err)
			}
			if !stream.Receive() || stream.Msg().GetOutcome().GetOutput() != `{"n":9007199254740993}` || stream.Receive() || stream.Err() != nil {
				t.Errorf("%v %v", stream.Msg(), stream.Err())
			}
			_ = stream.Close()
			approvals := palyrav1connect.NewApprovalsServiceClient(b.unix("agent", c.http2), "http://palyra", c.opts...)
			_, err = approvals.ListApprovals(t.Context(), &v1.ListApprovalsRequest{})
			if e := wire.FromStatus(err); e.Reason != palyra.ReasonPermission || e.Remedy == "" ||
				connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%+v", e)
			}
		})
	}
}

// post sends one plain request and returns the status and what came back; an
// error of gRPC-Web stands in a header.
func (b *bench) post(door, path, kind, body string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, "http://palyra"+path, strings.NewReader(body))
	b.must(err)
	req.Header.Set("Content-Type", kind)
	res, err := b.unix(door, false).Do(req)
	b.must(err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	b.must(err)
	return res.StatusCode, string(raw) + res.Header.Get("Grpc-Message")
}

func TestPlainJSON(t *testing.T) {
	b := newBench(t, rpc.New)
	code, body := b.post("operator", "/palyra.v1.StatusService/GetStatus", "application/json", `{}`)
	var got struct {
		Status struct {
			StateID string `json:"state_id"`
			PID     int64  `json:"pid"`
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 || got.Status.StateID == "" || got.Status.PID != 7 {
		t.Errorf("%d %s %v", code, body, err)
	}
	code, body = b.post("agent", "/palyra.v1.StatusService/GetStatus", "application/json", `{}`)
	if code != 200 || strings.Contains(body, "keys_dir") || strings.Contains(body, "problems") || !strings.Contains(body, "state_id") {
		t.Errorf("an agent sees %s", body)
	}
}

func TestGarbage(t *testing.T) {
	b := newBench(t, rpc.New)
	for _, c := range []struct {
		path, kind, body string
		want             int
	}{
		{"/palyra.v1.ToolService/ListTools", "application/json", `{`, 400},
		{"/palyra.v1.ToolService/ListTools", "application/json", `{"x":1}`, 400},
		{"/palyra.v1.ToolService/ListTools", "application/json", ``, 400},
		{"/palyra.v1.ToolService/GetTool", "application/json", `{"name":"a","name":"b"}`, 400},
		{"/palyra.v1.ToolService/GetTool", "application/proto", "\xff\xff\xff", 400},
		{"/palyra.v1.ToolService/ListTools", "text/plain", `hello`, 415},
		{"/palyra.v1.ToolService/Unheard", "application/json", `{}`, 404},
		{"/", "application/json", `{}`, 404},
	} {
		code, body := b.post("agent", c.path, c.kind, c.body)
		if code != c.want || strings.Contains(body, "goroutine") || strings.Contains(body, ".go:") {
			t.Errorf("%s %s %q: %d %s, want %d", c.path, c.kind, c.body, code, body, c.want)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://palyra/palyra.v1.ToolService/ListTools", nil)
	res, err := b.unix("agent", false).Do(req)
	b.must(err)
	if _ = res.Body.Close(); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", res.StatusCode)
	}
	if code, _ := b.post("agent", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code != 200 {
		t.Errorf("after garbage: %d", code)
	}
}

func TestHealthAndReflection(t *testing.T) {
	b := newBench(t, rpc.New)
	for _, door := range []string{"agent", "operator"} {
		h := grpchealth.NewClient(b.unix(door, true), "http://palyra", connect.WithGRPC())
		for _, name := range append([]string{""}, b.server.ServiceNames()...) {
			res, err := h.Check(t.Context(), &grpchealth.CheckRequest{Service: name})
			if err != nil || res.Status != grpchealth.StatusServing {
				t.Errorf("%s: %v %v", name, res, err)
			}
		}
		code, body := b.post(door, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "application/grpc", "")
		if code == http.StatusNotFound {
			t.Errorf("no reflection: %s", body)
		}
	}
	if n := len(b.server.ServiceNames()); n != 18 {
		t.Errorf("%d services", n)
	}
}

// bare is a service of the outside world, without our option.
type bare struct{}

func (bare) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return grpchealth.NewHandler(grpchealth.NewStaticChecker(), opts...)
}

// shadow mounts the health service a second time under our chain.
type shadow struct{ bare }

func (s shadow) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	path, h := s.bare.Mount(opts...)
	return "/shadow" + path, http.StripPrefix("/shadow", h)
}

func TestMethodWithoutOptionIsRefused(t *testing.T) {
	b := newBench(t, func(c rpc.Config) (*rpc.Server, error) {
		c.Services = append(c.Services, shadow{})
		return rpc.New(c)
	})
	for _, door := range []string{"agent", "operator"} {
		code, body := b.post(door, "/shadow/grpc.health.v1.Health/Check", "application/json", `{}`)
		if code != http.StatusForbidden || b.reason([]byte(body)) != palyra.ReasonPermission {
			t.Errorf("%d %s", code, body)
		}
	}
}

func TestErrorsLeakNothing(t *testing.T) {
	b := newBench(t, rpc.New)
	b.parts.OnDecide = func(palyra.Vote) (palyra.Approval, error) {
		return palyra.Approval{}, errors.New("store: /home/alice/state.db: disk I/O error")
	}
	m := find(t, "DecideApproval")
	msg := m.request(t)
	if got := b.send("operator", m, msg, intent(b.owner.intent(t, m, msg, "01STATE", time.Now()))); got != palyra.ReasonInternal {
		t.Errorf("%q", got)
	}
	b.parts.OnCall = func(context.Context, palyra.Proposal, palyra.Watch) (palyra.Outcome, error) {
		panic("secret in a panic")
	}
	tools := palyrav1connect.NewToolServiceClient(b.unix("agent", false), "http://palyra")
	stream, err := tools.CallTool(t.Context(), &v1.CallToolRequest{Tool: "x"})
	b.must(err)
	for stream.Receive() {
		t.Error("an outcome after a panic")
	}
	if err := stream.Err(); err == nil || strings.Contains(err.Error(), "secret") || wire.FromStatus(err).Reason != palyra.ReasonInternal {
		t.Errorf("%v", err)
	}
	b.must(b.stop())
	if log := b.log.String(); !strings.Contains(log, "disk I/O error") || !strings.Contains(log, "panicked") {
		t.Errorf("the log does not say what happened: %s", log)
	}
}

// A stop ends streams with a reason, lets unary requests finish, and leaves
// nothing behind.
func TestStop(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"), goleak.IgnoreAnyFunction("net/http.(*http2clientConnReadLoop).run"))
	b := newBench(t, rpc.New)
	inside, finish := make(chan struct{}), make(chan struct{})
	b.parts.OnDecide = func(v palyra.Vote) (palyra.Approval, error) {
		close(inside)
		<-finish
		return palyra.Approval{ID: v.Approval}, nil
	}
	approvals := palyrav1connect.NewApprovalsServiceClient(b.unix("operator", false), "http://palyra")
	stream, err := approvals.WatchApprovals(t.Context(), &v1.WatchApprovalsRequest{})
	b.must(err)
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	decided := make(chan palyra.Reason, 1)
	go func() {
		m := find(t, "DecideApproval")
		msg := m.request(t)
		decided <- b.send("operator", m, msg, intent(b.owner.intent(t, m, msg, "01STATE", time.Now())))
	}()
	<-inside
	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	if stream.Receive() {
		t.Error("news after the stop")
	}
	if e := wire.FromStatus(stream.Err()); e.Reason != palyra.ReasonStopping || e.Code != palyra.Unavailable {
		t.Errorf("%+v", e)
	}
	close(finish)
	if got := <-decided; got != let {
		t.Errorf("a request under way got %q", got)
	}
	b.must(<-stopped)
}
