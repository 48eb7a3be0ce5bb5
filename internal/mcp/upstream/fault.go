package upstream

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/show"
)

// broken says why a server could not be spoken to, with its own last words.
func (s *server) broken(ctx context.Context, x *connection, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	why := trimmed(err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "it did not answer in time"
	}
	if x.process != nil {
		wait := time.Duration(0)
		if x.ending.Load() || closed(err) {
			wait = stopGrace
		}
		select {
		case <-x.process.Done():
			if closed(err) {
				why = "it ended: " + x.exitText()
			}
		case <-time.After(wait):
		}
		if _, stderr := x.process.Last(); lastWords(stderr) != "" {
			why += "; it wrote: " + lastWords(stderr)
		}
	}
	return failed(s.name, why).WithCause(err)
}

// lastMoment is how long a server that closed its stdout may take to end.
const lastMoment = time.Second

// stopGrace is how long a server that was told to stop is waited for, to say how.
const stopGrace = 5 * time.Second

// closed tells an error that means that the other end is gone.
func closed(err error) bool {
	return errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func failed(name, why string) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUpstreamFailed, "the MCP server %s cannot be used: %s", name, why).
		WithRemedy("see 'palyra mcp show %s'", name)
}

// trimmed is an error of the library as one safe line.
func trimmed(err error) string {
	if e := (*palyra.Error)(nil); errors.As(err, &e) {
		return e.Text
	}
	return show.Line(palyra.Clip(err.Error(), 300))
}
