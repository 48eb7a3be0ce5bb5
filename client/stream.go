package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// RunStream is a run on one stream, both ways: each message of the client is answered, and the tape
// comes as it is written. It starts a run or attaches to one, once, before anything else. Each
// message is signed by itself where the protocol asks for it. The run outlives the stream; the
// daemon cuts off a stream that is not read, and a new one attaches where it ended.
//
// Its methods may be used from several goroutines; Recv from one.
type RunStream struct {
	client *Client
	ctx    context.Context // of the stream, which does not outlive it
	cancel context.CancelFunc
	stream *connect.BidiStreamForClientSimple[v1.RunStreamRequest, v1.RunStreamResponse]
	err    error // the stream could not be opened

	sending sync.Mutex // orders messages as their places in asked
	reading chan struct{}
	state   sync.Mutex // guards the following fields
	run     palyra.RunID
	asked   []chan *v1.RunStreamResponse // one for each awaited answer, in order
	tape    []palyra.TapeEntry           // entries that arrived while an answer was awaited
	broken  error
}

// RunStream opens a stream. If it could not be opened, its first use returns the error.
func (c *Client) RunStream(ctx context.Context) *RunStream {
	ctx, cancel := context.WithCancel(ctx)
	s := &RunStream{client: c, ctx: ctx, cancel: cancel, reading: make(chan struct{}, 1)}
	s.stream, s.err = c.streams().RunStream(ctx)
	if s.err == nil { // the end of a context alone does not reach a stream that waits for a message to send
		context.AfterFunc(ctx, func() { _, _ = s.stream.CloseRequest(), s.stream.CloseResponse() })
	}
	return s
}

// Start starts a run; its tape follows from the beginning.
func (s *RunStream) Start(r RunRequest) (palyra.Run, error) {
	m, err := r.message()
	if err != nil {
		return palyra.Run{}, err
	}
	return s.begin(&v1.RunStreamRequest{Message: &v1.RunStreamRequest_Start{Start: m}})
}

// Attach follows a run's tape from the entry after the one numbered after.
func (s *RunStream) Attach(id palyra.RunID, after int64) (palyra.Run, error) {
	return s.begin(&v1.RunStreamRequest{Message: &v1.RunStreamRequest_Attach{
		Attach: &v1.AttachRunRequest{RunId: string(id), AfterSeq: after},
	}})
}

func (s *RunStream) begin(m *v1.RunStreamRequest) (palyra.Run, error) {
	res, err := s.ask(m)
	run, err := word[palyra.Run](res.GetRun(), err)
	if err == nil {
		s.state.Lock()
		s.run = run.ID
		s.state.Unlock()
	}
	return run, err
}

// Input sends text to the run.
func (s *RunStream) Input(text string) error {
	_, err := s.ask(&v1.RunStreamRequest{Message: &v1.RunStreamRequest_Input{
		Input: &v1.SendRunInputRequest{RunId: string(s.id()), Text: text},
	}})
	return err
}

// Decide answers an approval (signed) and returns it as it then stands.
func (s *RunStream) Decide(r DecideRequest) (palyra.Approval, error) {
	res, err := s.ask(&v1.RunStreamRequest{Message: &v1.RunStreamRequest_ToolApprovalResponse{ToolApprovalResponse: r.message()}})
	return word[palyra.Approval](res.GetApproval(), err)
}

// Cancel ends the run. Its tape still comes to the end.
func (s *RunStream) Cancel() error {
	_, err := s.ask(&v1.RunStreamRequest{Message: &v1.RunStreamRequest_Cancel{Cancel: &v1.CancelRunRequest{RunId: string(s.id())}}})
	return err
}

// Recv returns the next entry of the tape, and io.EOF after the last one.
func (s *RunStream) Recv() (palyra.TapeEntry, error) {
	for {
		select {
		case s.reading <- struct{}{}:
		case <-s.ctx.Done():
			return palyra.TapeEntry{}, ended(s.ctx)
		}
		e, ok, err := s.next()
		<-s.reading
		if ok || err != nil {
			return e, err
		}
	}
}

// next returns an entry that has arrived, or else reads a message, which may be one.
func (s *RunStream) next() (e palyra.TapeEntry, ok bool, err error) {
	if e, ok = s.pop(); ok {
		return e, true, nil
	}
	err = s.read()
	if e, ok = s.pop(); ok {
		return e, true, nil
	}
	return e, false, err
}

func (s *RunStream) pop() (e palyra.TapeEntry, ok bool) {
	s.state.Lock()
	defer s.state.Unlock()
	if len(s.tape) == 0 {
		return e, false
	}
	e, s.tape = s.tape[0], s.tape[1:]
	return e, true
}

// Close leaves the stream; the run goes on.
func (s *RunStream) Close() error {
	s.cancel()
	return nil
}

func (s *RunStream) id() palyra.RunID {
	s.state.Lock()
	defer s.state.Unlock()
	return s.run
}

// ask sends a message and waits for its answer. Entries that come before it are kept for Recv.
func (s *RunStream) ask(m *v1.RunStreamRequest) (*v1.RunStreamResponse, error) {
	answer, err := s.send(m)
	if err != nil {
		return nil, err
	}
	for {
		select {
		case res := <-answer:
			return res, refusal(res)
		case <-s.ctx.Done():
			return nil, ended(s.ctx)
		case s.reading <- struct{}{}:
		}
		var err error
		if len(answer) == 0 { // not read by another goroutine meanwhile
			err = s.read()
		}
		<-s.reading
		switch {
		case errors.Is(err, io.EOF):
			return nil, palyra.Errorf(palyra.Expired, palyra.ReasonRunEnded, "the run ended before the message was answered")
		case err != nil:
			return nil, err
		}
	}
}

// send signs a message where it must be and sends it.
func (s *RunStream) send(m *v1.RunStreamRequest) (<-chan *v1.RunStreamResponse, error) {
	if s.err != nil {
		return nil, failure(s.err)
	}
	access, inner, ok := wire.Inner(m)
	if !ok {
		return nil, errors.New("client: an empty message")
	}
	var err error
	if m.Intent, err = s.client.intent(s.ctx, access, inner); err != nil {
		return nil, failure(err)
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	answer := make(chan *v1.RunStreamResponse, 1)
	s.state.Lock()
	s.asked = append(s.asked, answer)
	s.state.Unlock()
	if err := s.stream.Send(m); err != nil && !errors.Is(err, io.EOF) { // the end of the stream says why it ended
		return nil, failure(err)
	}
	return answer, nil
}

// read takes one message off the stream and hands it to Recv or to the one who asked. The caller holds reading.
func (s *RunStream) read() error {
	s.state.Lock()
	broken := s.broken
	s.state.Unlock()
	if broken != nil {
		return broken
	}
	if s.err != nil {
		return failure(s.err)
	}
	m, err := s.stream.Receive()
	s.state.Lock()
	defer s.state.Unlock()
	switch {
	case errors.Is(err, io.EOF): // an orderly end; a lost connection is io.ErrUnexpectedEOF
		s.broken = io.EOF
	case err != nil:
		s.broken = failure(err)
	case m.GetEntry() != nil:
		e, err := wire.ToEntry(m.GetEntry())
		if err != nil {
			s.broken = failure(err)
			break
		}
		s.tape = append(s.tape, e)
	case len(s.asked) > 0:
		s.asked[0] <- m
		s.asked = s.asked[1:]
	default:
		s.broken = palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the daemon sent an answer without a question")
	}
	return s.broken
}

// refusal is the error in an answer.
func refusal(m *v1.RunStreamResponse) error {
	r := m.GetRefused()
	if r == nil {
		return nil
	}
	return &palyra.Error{
		Code: palyra.Code(r.GetDetail().GetCode()), Reason: palyra.Reason(r.GetDetail().GetReasonCode()),
		Text: r.GetMessage(), Remedy: r.GetDetail().GetRemedy(),
	}
}
