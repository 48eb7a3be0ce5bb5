package runs

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// RunStream implements the method.
func (s *Service) RunStream(ctx context.Context, stream *connect.BidiStream[v1.RunStreamRequest, v1.RunStreamResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &talk{service: s, stream: stream}
	err := t.listen(ctx)
	if err != nil && !t.told.Load() {
		cancel()
		if t.tape != nil {
			<-t.tape
		}
		return err
	}
	if t.tape == nil {
		return err
	}
	return <-t.tape // the client says no more, but still listens
}

// talk is a stream about one run: the client's messages are taken one by one on
// the handler's goroutine, the tape is told on another.
type talk struct {
	service *Service
	stream  *connect.BidiStream[v1.RunStreamRequest, v1.RunStreamResponse]
	run     palyra.RunID
	tape    <-chan error // how telling the tape ended; nil: no run yet
	told    atomic.Bool  // the tape ended before the client did
	sending sync.Mutex
}

// listen takes messages until the client says no more.
func (t *talk) listen(ctx context.Context) error {
	for {
		m, err := t.stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := t.take(ctx, m); err != nil {
			return err
		}
	}
}

// take answers one message. A refusal is an answer; an error is the daemon's own and ends the stream.
func (t *talk) take(ctx context.Context, m *v1.RunStreamRequest) error {
	res, follow, err := t.answer(ctx, m)
	if err != nil {
		if res, err = refused(err); err != nil {
			return err
		}
	}
	if err := t.send(res); err != nil {
		return err
	}
	if follow != nil {
		t.tape = rpc.Go(ctx, func() error { return t.tell(ctx, follow) })
	}
	return nil
}

// refused turns an error into an answer, or returns it when there is more to it than the message that met it.
func refused(err error) (*v1.RunStreamResponse, error) {
	e := palyra.AsError(err)
	if e.Code == palyra.Internal || e.Code == palyra.Unavailable {
		return nil, err
	}
	return &v1.RunStreamResponse{Event: &v1.RunStreamResponse_Refused{Refused: &v1.RunStreamRefused{
		Message: e.Text, Detail: &v1.ErrorDetail{Code: string(e.Code), ReasonCode: string(e.Reason), Remedy: e.Remedy},
	}}}, nil
}

// answer lets a message in and does what it asks for. follow is set when the tape is to be told from here on.
func (t *talk) answer(ctx context.Context, m *v1.RunStreamRequest) (res *v1.RunStreamResponse, follow *v1.AttachRunRequest, err error) {
	access, inner, ok := wire.Inner(m)
	if !ok {
		return nil, nil, invalid("the message is empty")
	}
	ctx, err = rpc.Admit(ctx, access, inner, m.GetIntent())
	if err != nil {
		return nil, nil, err
	}
	if err := t.fits(inner); err != nil {
		return nil, nil, err
	}
	switch m := inner.(type) {
	case *v1.StartRunRequest:
		got, err := t.service.StartRun(ctx, m)
		return t.follow(got.GetRun(), 0, err)
	case *v1.AttachRunRequest:
		run, err := t.service.attachable(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		msg := &v1.Run{}
		return t.follow(msg, m.GetAfterSeq(), wire.FromWord(run, msg))
	case *v1.SendRunInputRequest:
		_, err = t.service.SendRunInput(ctx, m)
		return takenResponse(), nil, err
	case *v1.CancelRunRequest:
		_, err = t.service.CancelRun(ctx, m)
		return takenResponse(), nil, err
	case *v1.DecideApprovalRequest:
		got, err := t.service.decider.DecideApproval(ctx, m)
		return &v1.RunStreamResponse{Event: &v1.RunStreamResponse_Approval{Approval: got.GetApproval()}}, nil, err
	}
	return nil, nil, errors.New("runs: a message that nobody takes")
}

// fits holds a stream to one run.
func (t *talk) fits(m proto.Message) error {
	of := ""
	switch m := m.(type) {
	case *v1.StartRunRequest, *v1.AttachRunRequest:
		if t.tape != nil {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonMalformedInput, "the stream has a run already").
				WithRemedy("open another stream")
		}
		return nil
	case *v1.SendRunInputRequest:
		of = m.GetRunId()
	case *v1.CancelRunRequest:
		of = m.GetRunId()
	default: // an approval belongs to no run
		return nil
	}
	if of == "" || of != string(t.run) {
		return invalid("the message is not about the stream's run")
	}
	return nil
}

func (t *talk) follow(run *v1.Run, after int64, err error) (*v1.RunStreamResponse, *v1.AttachRunRequest, error) {
	if err != nil {
		return nil, nil, err
	}
	t.run = palyra.RunID(run.GetRunId())
	res := &v1.RunStreamResponse{Event: &v1.RunStreamResponse_Run{Run: run}}
	return res, &v1.AttachRunRequest{RunId: run.GetRunId(), AfterSeq: after}, nil
}

func takenResponse() *v1.RunStreamResponse {
	return &v1.RunStreamResponse{Event: &v1.RunStreamResponse_Taken{Taken: &v1.RunStreamTaken{}}}
}

// tell tells the tape to its end, and then ends the stream.
func (t *talk) tell(ctx context.Context, from *v1.AttachRunRequest) error {
	defer rpc.EndInput(ctx)
	defer func() { t.told.Store(ctx.Err() == nil) }()
	return t.service.runs.Attach(ctx, palyra.RunID(from.GetRunId()), from.GetAfterSeq(), func(e palyra.TapeEntry) error {
		m, err := wire.FromEntry(e)
		if err != nil {
			return err
		}
		return t.send(&v1.RunStreamResponse{Event: &v1.RunStreamResponse_Entry{Entry: m}})
	})
}

// send is for both goroutines.
func (t *talk) send(m *v1.RunStreamResponse) error {
	t.sending.Lock()
	defer t.sending.Unlock()
	return t.stream.Send(m)
}
