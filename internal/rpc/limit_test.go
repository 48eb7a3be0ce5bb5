package rpc_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

const tight = 200 * time.Millisecond

func tightServer(requests int, bodies int64) maker {
	return func(c rpc.Config) (*rpc.Server, error) { return rpc.NewTight(c, tight, requests, bodies) }
}

func TestLargeArgumentsReachTheGate(t *testing.T) {
	b := newBench(t, rpc.New)
	got := make(chan int, 1)
	b.parts.OnCall = func(_ context.Context, p palyra.Proposal, _ palyra.Watch) (palyra.Outcome, error) {
		got <- len(p.Arguments)
		return palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonInputTooLarge}, nil
	}
	tools := palyrav1connect.NewToolServiceClient(b.unix("agent", false), "http://palyra")
	args := `{"a":"` + strings.Repeat("x", 10<<20) + `"}`
	stream, err := tools.CallTool(t.Context(), &v1.CallToolRequest{Tool: "palyra.echo", Arguments: args})
	b.must(err)
	if !stream.Receive() || stream.Msg().GetOutcome().GetReasonCode() != string(palyra.ReasonInputTooLarge) || <-got != len(args) {
		t.Errorf("%v", stream.Err())
	}
	_ = stream.Close()
}

func TestOversizeIsRefusedClearly(t *testing.T) {
	b := newBench(t, rpc.New)
	tools := palyrav1connect.NewToolServiceClient(b.unix("agent", false), "http://palyra")
	_, err := tools.GetTool(t.Context(), &v1.GetToolRequest{Name: strings.Repeat("x", 2<<20)})
	if e := wire.FromStatus(err); e.Code != palyra.Exhausted || e.Reason != palyra.ReasonInputTooLarge {
		t.Errorf("%+v", e)
	}
	stream, err := tools.CallTool(t.Context(), &v1.CallToolRequest{Arguments: strings.Repeat("x", 13<<20)})
	if err == nil {
		for stream.Receive() {
			t.Error("an outcome")
		}
		err = stream.Err()
	}
	if e := wire.FromStatus(err); e.Code != palyra.Exhausted {
		t.Errorf("%+v", e)
	}
	if seen := b.parts.Seen(); len(seen) != 0 {
		t.Errorf("reached %v", seen)
	}
	// A compressed body counts by what it becomes.
	zip := palyrav1connect.NewToolServiceClient(b.unix("agent", false), "http://palyra", connect.WithSendGzip())
	_, err = zip.GetTool(t.Context(), &v1.GetToolRequest{Name: strings.Repeat("x", 64<<20)})
	if e := wire.FromStatus(err); e.Code != palyra.Exhausted {
		t.Errorf("a bomb: %+v", e)
	}
}

func TestLargeHeadersAreRefused(t *testing.T) {
	b := newBench(t, rpc.New)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://palyra/palyra.v1.ToolService/ListTools",
		strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	res, err := b.unix("agent", false).Do(req)
	b.must(err)
	if _ = res.Body.Close(); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", res.StatusCode)
	}
}

// A client that dribbles or stalls is cut off; others are not.
func TestSlowClients(t *testing.T) {
	b := newBench(t, tightServer(64, 1<<20))
	for name, sent := range map[string]string{
		"nothing":      "",
		"half headers": "POST /palyra.v1.ToolService/ListTools HTTP/1.1\r\nHost: x\r\n",
		"half a body": "POST /palyra.v1.ToolService/ListTools HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
			"100\r\n\r\n{",
	} {
		conn, err := net.Dial("unix", b.socket("agent"))
		b.must(err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, sent)
		b.must(err)
		b.must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
		raw, err := io.ReadAll(conn) // ends when the daemon gives up
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "half a body" && (!strings.Contains(string(raw), "did not arrive in time") || strings.Contains(string(raw), b.dir)) {
			t.Errorf("%s: %q", name, raw)
		}
	}
	if code, _ := b.post("agent", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code != 200 {
		t.Errorf("an honest client got %d", code)
	}
}

// The time for a body is not the time for an answer: a request whose body is here,
// or that has none, is not ended because its answer takes long.
func TestLongAnswers(t *testing.T) {
	b := newBench(t, tightServer(64, 1<<20))
	var left atomic.Int32
	b.parts.OnTools = func(ctx context.Context) {
		select {
		case <-ctx.Done():
			left.Add(1)
		case <-time.After(4 * tight):
		}
	}
	for name, sent := range map[string]string{
		"no body":    "Content-Type: application/proto\r\nContent-Length: 0\r\n\r\n",
		"a body":     "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"in chunks":  "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"empty ones": "Content-Type: application/proto\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		conn, err := net.Dial("unix", b.socket("agent"))
		b.must(err)
		b.must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
		_, err = io.WriteString(conn, "POST /palyra.v1.ToolService/ListTools HTTP/1.1\r\nHost: x\r\n"+sent)
		b.must(err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, "200") || left.Swap(0) != 0 {
			t.Errorf("%s: %q %v", name, line, err)
		}
		_ = conn.Close()
	}
}

// Whoever says that it will send more than anything that is taken is answered at
// once, at every door, and not when the time for bodies is up.
func TestDeclaredTooLarge(t *testing.T) {
	w := newWorld(t, nil)
	dial := map[string]func() (net.Conn, error){
		"agent":    func() (net.Conn, error) { return net.Dial("unix", w.socket("agent")) },
		"operator": func() (net.Conn, error) { return net.Dial("unix", w.socket("operator")) },
		"console":  func() (net.Conn, error) { return net.Dial("tcp", w.consoleAt) },
	}
	for name, open := range dial {
		for _, path := range []string{statusPath, "/palyra.v1.ToolService/CallTool", "/login"} {
			conn, err := open()
			w.must(err)
			w.must(conn.SetDeadline(time.Now().Add(20 * time.Second))) // bodies have 30
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", path,
				w.console, int64(16)<<30)
			w.must(err)
			raw, err := io.ReadAll(conn)
			if err != nil || !strings.Contains(string(raw), "larger than anything") {
				t.Errorf("%s %s: %v %q", name, path, err, raw)
			}
			_ = conn.Close()
		}
	}
	d := w.pair("laptop", palyra.RoleOwner)
	body := newCrumbs(time.Hour)
	defer body.tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+statusPath, body)
	w.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.ContentLength = 16 << 30
	res, err := d.http.Do(req)
	w.must(err)
	said, err := io.ReadAll(res.Body)
	w.must(err)
	close(body.over)
	_ = res.Body.Close()
	if !strings.Contains(string(said), "larger than anything") {
		t.Errorf("device: %s", said)
	}
	w.served("after it said too much", d)
}

// A client that does not read its stream does not hold the handler for ever:
// it has the door's only place, and the next client gets it.
func TestClientThatDoesNotRead(t *testing.T) {
	b := newBench(t, tightServer(1, 1<<20))
	for i := range 20000 {
		b.parts.Entries = append(b.parts.Entries, palyra.Entry{Seq: int64(i + 1), Kind: strings.Repeat("k", 500)})
	}
	conn, err := net.Dial("unix", b.socket("operator"))
	b.must(err)
	defer func() { _ = conn.Close() }()
	body := "\x00\x00\x00\x00\x02{}"
	_, err = fmt.Fprintf(conn, "POST /palyra.v1.JournalService/TailJournal HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body)
	b.must(err)
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n') // it began; now we stall
	if err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q %v", line, err)
	}
	if code, _ := b.post("operator", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code != http.StatusTooManyRequests {
		t.Fatalf("the place was free all along: %d", code)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		code, _ := b.post("operator", "/palyra.v1.ToolService/ListTools", "application/json", `{}`)
		if code == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the handler is still held: %d", code)
		}
	}
}

func TestQuietStreamsLive(t *testing.T) {
	b := newBench(t, tightServer(64, 1<<20))
	for _, http2 := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 4*tight)
		approvals := palyrav1connect.NewApprovalsServiceClient(b.unix("operator", http2), "http://palyra")
		stream, err := approvals.WatchApprovals(ctx, &v1.WatchApprovalsRequest{})
		b.must(err)
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		if stream.Receive() {
			t.Error("news from nowhere")
		}
		if code := connect.CodeOf(stream.Err()); code != connect.CodeDeadlineExceeded { // ours, not the daemon's
			t.Errorf("http2 %v: the stream ended by itself: %v", http2, stream.Err())
		}
		_ = stream.Close()
		cancel()
	}
}

func TestTooManyRequests(t *testing.T) {
	b := newBench(t, tightServer(2, 1<<20))
	inside, finish := make(chan struct{}), make(chan struct{})
	b.parts.OnCall = func(context.Context, palyra.Proposal, palyra.Watch) (palyra.Outcome, error) {
		inside <- struct{}{}
		<-finish
		return palyra.Outcome{}, nil
	}
	tools := palyrav1connect.NewToolServiceClient(b.unix("agent", false), "http://palyra")
	done := make(chan error, 2)
	for range 2 {
		go func() {
			stream, err := tools.CallTool(t.Context(), &v1.CallToolRequest{})
			if err == nil {
				for stream.Receive() {
				}
				err = stream.Err()
			}
			done <- err
		}()
		<-inside
	}
	for range 5 {
		_, err := tools.ListTools(t.Context(), &v1.ListToolsRequest{})
		if e := wire.FromStatus(err); e.Reason != palyra.ReasonRateLimited || e.Code != palyra.Exhausted {
			t.Errorf("%+v", e)
		}
	}
	if code, _ := b.post("operator", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code != 200 {
		t.Errorf("the other door is closed too: %d", code)
	}
	close(finish)
	b.must(<-done)
	b.must(<-done)
	if _, err := tools.ListTools(t.Context(), &v1.ListToolsRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	flood := 0
	b.journal.mu.Lock()
	for _, e := range b.journal.events {
		if _, ok := e.(palyra.DoorFlood); ok {
			flood++
		}
	}
	b.journal.mu.Unlock()
	if flood != 1 {
		t.Errorf("%d lines about the flood", flood)
	}
}

func TestBodiesShareABudget(t *testing.T) {
	b := newBench(t, tightServer(64, 100<<10))
	tools := palyrav1connect.NewToolServiceClient(b.unix("agent", false), "http://palyra")
	_, err := tools.GetTool(t.Context(), &v1.GetToolRequest{Name: strings.Repeat("x", 200<<10)})
	if e := wire.FromStatus(err); e.Reason != palyra.ReasonRateLimited {
		t.Errorf("more than the budget: %+v", e)
	}
	for range 4 { // what a request held is given back
		if _, err := tools.GetTool(t.Context(), &v1.GetToolRequest{Name: strings.Repeat("x", 60<<10)}); err != nil {
			t.Error(err)
		}
	}
}
