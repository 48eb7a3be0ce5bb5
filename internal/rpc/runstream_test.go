package rpc_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"
)

type runStream = connect.BidiStreamForClientSimple[v1.RunStreamRequest, v1.RunStreamResponse]

// runStream opens a stream with the headers of a credential.
func (b *bench) runStream(ctx context.Context, door string, head http.Header, opts ...connect.ClientOption) *runStream {
	b.t.Helper()
	ctx, info := connect.NewClientContext(ctx)
	for k, v := range head {
		info.RequestHeader()[k] = v
	}
	s, err := palyrav1connect.NewRunServiceClient(b.unix(door, true), "http://palyra", opts...).RunStream(ctx)
	b.must(err)
	return s
}

// ask sends a message and returns its answer, whatever the tape says meanwhile.
func (b *bench) ask(s *runStream, m *v1.RunStreamRequest) *v1.RunStreamResponse {
	b.t.Helper()
	b.must(s.Send(m))
	for {
		res, err := s.Receive()
		b.must(err)
		if res.GetEntry() == nil {
			return res
		}
	}
}

func attach(run string, after int64) *v1.RunStreamRequest {
	return &v1.RunStreamRequest{Message: &v1.RunStreamRequest_Attach{Attach: &v1.AttachRunRequest{RunId: run, AfterSeq: after}}}
}

func reasonOf(res *v1.RunStreamResponse) palyra.Reason {
	return palyra.Reason(res.GetRefused().GetDetail().GetReasonCode())
}

// arm is a kind of message of the stream and the method it belongs to.
type arm struct {
	method method
	wrap   func() (*v1.RunStreamRequest, proto.Message)
}

// arms walks the messages of the stream.
func arms(t *testing.T) (out []arm) {
	t.Helper()
	fields := (&v1.RunStreamRequest{}).ProtoReflect().Descriptor().Oneofs().ByName("message").Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		for _, m := range methods(t) {
			if m.Input().FullName() != fd.Message().FullName() {
				continue
			}
			out = append(out, arm{m, func() (*v1.RunStreamRequest, proto.Message) {
				req, inner := &v1.RunStreamRequest{}, m.request(t)
				req.ProtoReflect().Set(fd, protoreflect.ValueOfMessage(inner.ProtoReflect()))
				return req, inner
			}})
		}
	}
	if len(out) != 5 {
		t.Fatalf("%d kinds of messages", len(out))
	}
	return out
}

// Every message of a stream, at every door, with every credential: let in or
// refused exactly as the same request would be alone.
func TestRunStreamMatrix(t *testing.T) {
	b := newBench(t, rpc.New)
	b.parts.Tape("R1") // never ends
	cells := 0
	for _, a := range arms(t) {
		for _, c := range credentials() {
			for door, want := range map[string]func(method) palyra.Reason{"agent": c.agent, "operator": c.operator} {
				req, inner := a.wrap()
				head := c.head(b, a.method, inner)
				req.Intent = head.Get(wire.IntentHeader)
				head.Del(wire.IntentHeader)
				cells++
				got := b.oneMessage(door, head, a.method, req)
				if got != want(a.method) {
					t.Errorf("%s at the %s door with %s: %q, want %q", a.method.Name(), door, c.name, got, want(a.method))
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// oneMessage sends a message on a stream that has a run, where it needs one, and
// checks that a refused one reached nothing.
func (b *bench) oneMessage(door string, head http.Header, m method, req *v1.RunStreamRequest) palyra.Reason {
	b.t.Helper()
	s := b.runStream(b.t.Context(), door, head)
	defer func() { _ = s.CloseResponse() }()
	if name := m.Name(); name != "StartRun" && name != "AttachRun" {
		_ = s.Send(attach("R1", 0))
		res, err := s.Receive()
		if err != nil {
			return wire.FromStatus(err).Reason // the stream itself was not let in
		}
		if res.GetRun() == nil {
			b.t.Fatalf("%v", res)
		}
		b.attached()
	}
	b.parts.Seen()
	_ = s.Send(req)
	res, err := s.Receive()
	if err != nil {
		return wire.FromStatus(err).Reason
	}
	got := reasonOf(res)
	if res.GetRun() != nil {
		b.attached()
	}
	if seen := b.parts.Seen(); got != let && len(seen) > 0 {
		b.t.Errorf("%s at the %s door was refused and reached %v", m.Name(), door, seen)
	}
	return got
}

// attached waits until a tape is being told, which is not the stream's own
// goroutine.
func (b *bench) attached() {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); !slices.Contains(b.parts.Seen(), "attach R1"); {
		if time.Now().After(end) {
			b.t.Fatal("no tape is told")
		}
	}
}

// A decision in a stream is the same decision: the same evidence, or the same
// refusal and the same alert.
func TestDecideInAStream(t *testing.T) {
	b := newBench(t, rpc.New)
	b.parts.Tape("R1")
	var vote palyra.Vote
	b.parts.OnDecide = func(v palyra.Vote) (palyra.Approval, error) { vote = v; return rpctest.Question, nil }
	decide := find(t, "DecideApproval")
	message := func(k key) (*v1.RunStreamRequest, *v1.DecideApprovalRequest) {
		inner, _ := decide.request(t).(*v1.DecideApprovalRequest)
		return &v1.RunStreamRequest{
			Message: &v1.RunStreamRequest_ToolApprovalResponse{ToolApprovalResponse: inner},
			Intent:  k.intent(t, decide, inner, rpctest.StateID, time.Now()),
		}, inner
	}
	s := b.runStream(t.Context(), "operator", nil)
	if res := b.ask(s, attach("R1", 0)); res.GetRun().GetRunId() != "R1" {
		t.Fatalf("%v", res)
	}
	req, _ := message(b.owner)
	if res := b.ask(s, req); res.GetApproval().GetApprovalId() != "A1" {
		t.Fatalf("%v", res)
	}
	if sig := vote.Signature; vote.By != "user:alice" || sig.PublicKey != b.owner.public || sig.Intent.PlanDigest != "sha256:00" ||
		sig.Intent.Method != "palyra.v1.ApprovalsService/DecideApproval" || sig.Fields["answer"] != "allow" || len(sig.Fields) != 3 {
		t.Errorf("%+v", vote)
	}
	vote = palyra.Vote{}
	if got := reasonOf(b.ask(s, req)); got != palyra.ReasonReplayedSignature {
		t.Errorf("again: %q", got)
	}
	req, inner := message(b.owner)
	inner.Answer = "deny"
	if got := reasonOf(b.ask(s, req)); got != palyra.ReasonBadSignature {
		t.Errorf("altered: %q", got)
	}
	req, _ = message(b.owner)
	req.Intent = ""
	if got := reasonOf(b.ask(s, req)); got != palyra.ReasonSignatureRequired { // the first one's signature covers the first one
		t.Errorf("unsigned: %q", got)
	}
	if vote.By != "" {
		t.Errorf("a refused vote was cast: %+v", vote)
	}
	b.journal.alerts()
	for _, c := range []struct {
		door string
		head http.Header
		who  palyra.Principal
	}{{"agent", nil, "agent:local"}, {"operator", bearer(b.token), "agent:ci"}} {
		s := b.runStream(t.Context(), c.door, c.head)
		b.ask(s, attach("R1", 0))
		req, _ := message(b.owner) // even with an owner's signature
		if got := reasonOf(b.ask(s, req)); got != palyra.ReasonAgentMayNotDecide {
			t.Errorf("%s: %q", c.who, got)
		}
		alerts := b.journal.alerts()
		if len(alerts) != 1 || alerts[0].Reason != palyra.ReasonAgentMayNotDecide || alerts[0].Principal != c.who || alerts[0].Approval != "A1" ||
			alerts[0].Method != "palyra.v1.ApprovalsService/DecideApproval" {
			t.Errorf("%s: %+v", c.who, alerts)
		}
	}
	if vote.By != "" {
		t.Errorf("an agent's vote was cast: %+v", vote)
	}
}

// A signature in the header of a stream is for its first message, and lends
// nothing to the others.
func TestHeaderSignatureOfAStream(t *testing.T) {
	b := newBench(t, rpc.New)
	b.parts.Tape("R1")
	first := attach("R1", 0)
	head := intent(b.owner.intent(t, find(t, "RunStream"), first, rpctest.StateID, time.Now()))
	s := b.runStream(t.Context(), "operator", head)
	if res := b.ask(s, first); res.GetRun() == nil {
		t.Fatalf("%v", res)
	}
	if who := b.parts.Who(); who.Principal != "user:alice" || who.Signed {
		t.Errorf("%+v", who)
	}
	cancel := &v1.RunStreamRequest{Message: &v1.RunStreamRequest_Cancel{Cancel: &v1.CancelRunRequest{RunId: "R1"}}}
	if got := reasonOf(b.ask(s, cancel)); got != palyra.ReasonSignatureRequired {
		t.Errorf("%q", got)
	}
	s = b.runStream(t.Context(), "operator", head)
	_ = s.Send(attach("R2", 0))
	if _, err := s.Receive(); wire.FromStatus(err).Reason != palyra.ReasonBadSignature {
		t.Errorf("another first message: %v", err)
	}
}

// What a client gets wrong is answered, and the stream goes on.
func TestRunStreamBadMessages(t *testing.T) {
	b := newBench(t, rpc.New)
	tape := b.parts.Tape("R1")
	s := b.runStream(t.Context(), "agent", nil)
	input := func(run, text string) *v1.RunStreamRequest {
		return &v1.RunStreamRequest{Message: &v1.RunStreamRequest_Input{Input: &v1.SendRunInputRequest{RunId: run, Text: text}}}
	}
	start := func(r *v1.StartRunRequest) *v1.RunStreamRequest {
		return &v1.RunStreamRequest{Message: &v1.RunStreamRequest_Start{Start: r}}
	}
	refusals := func(cases map[string]struct {
		m    *v1.RunStreamRequest
		want palyra.Reason
	},
	) {
		t.Helper()
		for name, c := range cases {
			if res := b.ask(s, c.m); reasonOf(res) != c.want {
				t.Errorf("%s: %v", name, res)
			}
		}
	}
	type cases = map[string]struct {
		m    *v1.RunStreamRequest
		want palyra.Reason
	}
	refusals(cases{
		"nothing":           {&v1.RunStreamRequest{}, palyra.ReasonMalformedInput},
		"only an intent":    {&v1.RunStreamRequest{Intent: "x"}, palyra.ReasonMalformedInput},
		"a bad intent":      {&v1.RunStreamRequest{Message: attach("R1", 0).GetMessage(), Intent: "x"}, palyra.ReasonBadSignature},
		"before a run":      {input("R1", "x"), palyra.ReasonMalformedInput},
		"before, unnamed":   {input("", "x"), palyra.ReasonMalformedInput},
		"a negative number": {attach("R1", -1), palyra.ReasonMalformedInput},
		"no such run":       {attach("none", 0), palyra.ReasonNotFound},
		"another's run":     {attach("other", 0), palyra.ReasonNotFound},
		"no such door":      {start(&v1.StartRunRequest{Door: "cron"}), palyra.ReasonMalformedInput},
		"a negative budget": {start(&v1.StartRunRequest{Budget: &v1.Budget{WallMs: -1}}), palyra.ReasonMalformedInput},
		"too long an input": {start(&v1.StartRunRequest{Input: strings.Repeat("x", 1<<20+1)}), palyra.ReasonInputTooLarge},
	})
	if res := b.ask(s, attach("R1", 0)); res.GetRun().GetRunId() != "R1" {
		t.Fatalf("%v", res)
	}
	refusals(cases{
		"a second run":   {attach("R2", 0), palyra.ReasonMalformedInput},
		"a second start": {start(&v1.StartRunRequest{}), palyra.ReasonMalformedInput},
		"another run":    {input("R2", "x"), palyra.ReasonMalformedInput},
		"no words":       {input("R1", ""), palyra.ReasonMalformedInput},
		"too many words": {input("R1", strings.Repeat("x", 64<<10+1)), palyra.ReasonInputTooLarge},
	})
	if res := b.ask(s, input("R1", "hello")); res.GetTaken() == nil {
		t.Errorf("%v", res)
	}
	// A field that nobody knows ends it, at any place in the stream.
	strange := input("R1", "x")
	strange.ProtoReflect().SetUnknown([]byte{0xfa, 0x7f, 1, 'y'})
	_ = s.Send(strange)
	if _, err := s.Receive(); wire.FromStatus(err).Reason != palyra.ReasonMalformedInput {
		t.Errorf("%v", err)
	}
	waitReaders(t, tape, 0)
	huge := b.runStream(t.Context(), "agent", nil)
	_ = huge.Send(start(&v1.StartRunRequest{Input: strings.Repeat("x", 4<<20)}))
	if _, err := huge.Receive(); wire.FromStatus(err).Code != palyra.Exhausted {
		t.Errorf("%v", err)
	}
}

// waitReaders waits until so many follow a tape.
func waitReaders(t *testing.T, tape *rpctest.FakeTape, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := tape.Wait(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// Every protocol that can carry a stream both ways does, at both doors.
func TestRunStreamProtocols(t *testing.T) {
	b := newBench(t, rpc.New)
	for name, opts := range map[string][]connect.ClientOption{
		"connect":       nil,
		"connect, json": {connect.WithCodec(wire.Codec{})},
		"standard json": {connect.WithProtoJSON()},
		"grpc":          {connect.WithGRPC()},
		"grpc, json":    {connect.WithGRPC(), connect.WithProtoJSON()},
		"grpc-web":      {connect.WithGRPCWeb()},
		"gzip":          {connect.WithSendGzip()},
	} {
		for _, door := range []string{"agent", "operator"} {
			id := palyra.RunID(fmt.Sprintf("%s at the %s door", name, door))
			tape := b.parts.Tape(id)
			tape.Write(palyra.TapeEntry{Run: id, RunAccepted: &palyra.TapeAccepted{Provider: "scripted"}})
			s := b.runStream(t.Context(), door, nil, opts...)
			b.must(s.Send(attach(string(id), 0)))
			if res, err := s.Receive(); err != nil || res.GetRun() == nil {
				t.Fatalf("%s: %v %v", id, res, err)
			}
			if res, err := s.Receive(); err != nil || res.GetEntry().GetRunAccepted().GetProvider() != "scripted" {
				t.Fatalf("%s: %v %v", id, res, err)
			}
			tape.Write(palyra.TapeEntry{Run: id, ToolOutput: &palyra.TapeOutput{Stream: "stdout", Data: []byte("\x00\xff")}})
			if res, err := s.Receive(); err != nil || string(res.GetEntry().GetToolOutput().GetData()) != "\x00\xff" ||
				res.GetEntry().GetSeq() != 2 {
				t.Fatalf("%s: %v %v", id, res, err)
			}
			tape.Write(palyra.TapeEntry{Run: id, RunFinished: &palyra.TapeRunFinished{State: palyra.RunDone}})
			if res, err := s.Receive(); err != nil || res.GetEntry().GetRunFinished().GetState() != "done" {
				t.Fatalf("%s: %v %v", id, res, err)
			}
			if res, err := s.Receive(); !errors.Is(err, io.EOF) { // by itself: the client did not close
				t.Errorf("%s: %v %v", id, res, err)
			}
			waitReaders(t, tape, 0)
		}
	}
	// HTTP/1.1 cannot, and says so.
	code, _ := b.post("agent", "/palyra.v1.RunService/RunStream", "application/connect+json", "")
	if code != http.StatusHTTPVersionNotSupported {
		t.Errorf("%d", code)
	}
}

// A client that says no more still hears the rest.
func TestRunStreamHalfClosed(t *testing.T) {
	b := newBench(t, rpc.New)
	tape := b.parts.Tape("R1")
	s := b.runStream(t.Context(), "agent", nil)
	b.ask(s, attach("R1", 0))
	b.must(s.CloseRequest())
	tape.Write(palyra.TapeEntry{Run: "R1", ModelText: &palyra.TapeText{Text: "bye"}})
	tape.Write(palyra.TapeEntry{Run: "R1", RunFinished: &palyra.TapeRunFinished{}})
	for range 2 {
		if res, err := s.Receive(); err != nil || res.GetEntry() == nil {
			t.Fatalf("%v %v", res, err)
		}
	}
	if _, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	quiet := b.runStream(t.Context(), "agent", nil) // one that never says anything
	b.must(quiet.CloseRequest())
	if _, err := quiet.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

// A stream that is quiet lives; a message that stalls half-way does not; and
// what messages held is given back, or the budget would be gone.
func TestRunStreamTimes(t *testing.T) {
	b := newBench(t, tightServer(64, 100<<10))
	b.parts.Tape("R1")
	s := b.runStream(t.Context(), "agent", nil)
	b.ask(s, attach("R1", 0))
	done := make(chan struct{})
	time.AfterFunc(4*tight, func() { close(done) })
	<-done // longer than a body may take
	for range 6 {
		text := &v1.RunStreamRequest{Message: &v1.RunStreamRequest_Input{
			Input: &v1.SendRunInputRequest{RunId: "R1", Text: strings.Repeat("x", 40<<10)},
		}}
		if res := b.ask(s, text); res.GetTaken() == nil {
			t.Fatalf("%v", res)
		}
	}
	silent := b.runStream(t.Context(), "agent", nil) // opens a stream and sends nothing
	if _, err := silent.Receive(); wire.FromStatus(err).Reason != palyra.ReasonTimedOut {
		t.Errorf("%v", err)
	}
	half, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://palyra/palyra.v1.RunService/RunStream", half)
	b.must(err)
	req.Header.Set("Content-Type", "application/connect+json")
	go func() {
		body := `{"attach":{"run_id":"R1"}}`
		_, _ = fmt.Fprintf(w, "\x00\x00\x00\x00%c%s", len(body), body)
		_, _ = io.WriteString(w, "\x00\x00\x00\x00\x20{")
	}()
	res, err := b.unix("agent", true).Do(req)
	b.must(err)
	raw, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(raw), "did not arrive in time") {
		t.Errorf("%q %v", raw, err)
	}
	_ = res.Body.Close()
	_ = w.Close()
}

// A client that goes away, or does not read, takes nothing with it.
func TestFollowersThatLeave(t *testing.T) {
	b := newBench(t, tightServer(64, 1<<20))
	tape := b.parts.Tape("R1")
	tape.Write(palyra.TapeEntry{Run: "R1", RunAccepted: &palyra.TapeAccepted{}})
	for _, http2 := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := palyrav1connect.NewRunServiceClient(b.unix("operator", http2), "http://palyra").AttachRun(ctx,
			&v1.AttachRunRequest{RunId: "R1"})
		b.must(err)
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		waitReaders(t, tape, 1)
		cancel()
		waitReaders(t, tape, 0)
	}
	s := b.runStream(t.Context(), "agent", nil)
	b.ask(s, attach("R1", 0))
	waitReaders(t, tape, 1)
	_ = s.CloseResponse()
	waitReaders(t, tape, 0)

	stalled := b.runStream(t.Context(), "agent", nil)
	b.must(stalled.Send(attach("R1", 0)))
	waitReaders(t, tape, 1)
	plain, err := palyrav1connect.NewRunServiceClient(b.unix("agent", false), "http://palyra").AttachRun(t.Context(),
		&v1.AttachRunRequest{RunId: "R1"})
	b.must(err)
	waitReaders(t, tape, 2)
	noise := make([]byte, 64<<10) // does not compress
	_, _ = rand.Read(noise)
	for range 80 { // what is written does not wait for anybody
		tape.Write(palyra.TapeEntry{Run: "R1", ToolOutput: &palyra.TapeOutput{Data: noise}})
	}
	waitReaders(t, tape, 0) // neither reads: both are cut off
	_ = plain.Close()
}

// A stop ends streams with a reason, whatever they wait for.
func TestStopEndsRunStreams(t *testing.T) {
	b := newBench(t, rpc.New)
	b.parts.Tape("R1")
	following, idle := b.runStream(t.Context(), "agent", nil), b.runStream(t.Context(), "agent", nil)
	b.ask(following, attach("R1", 0))
	b.ask(idle, attach("none", 0))
	plain, err := palyrav1connect.NewRunServiceClient(b.unix("agent", false), "http://palyra").AttachRun(t.Context(),
		&v1.AttachRunRequest{RunId: "R1"})
	b.must(err)
	b.must(b.stop())
	for name, s := range map[string]*runStream{"following": following, "idle": idle} {
		if _, err := s.Receive(); wire.FromStatus(err).Reason != palyra.ReasonStopping {
			t.Errorf("%s: %v", name, err)
		}
	}
	if plain.Receive() || wire.FromStatus(plain.Err()).Reason != palyra.ReasonStopping {
		t.Errorf("%v", plain.Err())
	}
}

// What fails inside ends the stream, says nothing of it, and ends nothing else.
func TestRunStreamFailsInside(t *testing.T) {
	b := newBench(t, rpc.New)
	b.parts.Tape("panic")
	b.parts.OnAttach = func(palyra.RunID) error { panic("secret in a panic") }
	s := b.runStream(t.Context(), "agent", nil)
	b.must(s.Send(attach("panic", 0)))
	_, err := s.Receive()
	if err == nil { // the answer; then the tape
		_, err = s.Receive()
	}
	if wire.FromStatus(err).Reason != palyra.ReasonInternal || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	b.parts.OnAttach = nil
	b.parts.OnDecide = func(palyra.Vote) (palyra.Approval, error) {
		return palyra.Approval{}, errors.New("store: /home/alice/state.db: disk I/O error")
	}
	decide := find(t, "DecideApproval")
	inner, _ := decide.request(t).(*v1.DecideApprovalRequest)
	s = b.runStream(t.Context(), "operator", nil)
	b.must(s.Send(&v1.RunStreamRequest{
		Message: &v1.RunStreamRequest_ToolApprovalResponse{ToolApprovalResponse: inner},
		Intent:  b.owner.intent(t, decide, inner, rpctest.StateID, time.Now()),
	}))
	if _, err := s.Receive(); wire.FromStatus(err).Reason != palyra.ReasonInternal || strings.Contains(err.Error(), "alice") {
		t.Errorf("%v", err)
	}
	b.must(b.stop())
	if log := b.log.String(); !strings.Contains(log, "disk I/O error") || !strings.Contains(log, "panicked") {
		t.Errorf("the log does not say what happened: %s", log)
	}
}
