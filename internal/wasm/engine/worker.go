package engine

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/wasm"
	"palyra/internal/wasm/wire"
)

// worker is one process, and what the daemon knows of it.
type worker struct {
	e       *Engine
	p       *Process
	in      *bufio.Reader
	key     poolKey
	runtime string
	runs    int

	mu    sync.Mutex
	gone  bool
	since time.Time // it is idle; of the pool
}

// Times that a worker has for what takes no time.
const (
	helloWithin = 20 * time.Second
	loadWithin  = 20 * time.Second
)

// maxRuns is after how many invocations a worker is replaced, so that nothing adds up.
const maxRuns = 10_000

// start starts a worker and waits for its first word.
func (e *Engine) start(ctx context.Context, memory int64) (*worker, error) {
	if e.ctx.Err() != nil {
		return nil, stopping()
	}
	p, err := e.Starter.Start(ctx, memory)
	if err != nil && palyra.AsError(err).Reason == palyra.ReasonInternal && ctx.Err() == nil {
		e.Log.Warn("a worker could not be started, and is tried once more", "err", err)
		p, err = e.Starter.Start(ctx, memory)
	}
	if err != nil {
		return nil, err
	}
	w := &worker{e: e, p: p, in: bufio.NewReaderSize(p.Out, 64<<10)}
	e.work.Go(func() { <-p.Done })
	var h wire.Hello
	err = w.within(ctx, helloWithin, func() error {
		f, err := wire.Read(w.in, 0)
		if err != nil {
			return err
		}
		return f.As(wire.KindHello, &h)
	})
	if err == nil && (h.Version != wire.Version || !strings.HasPrefix(h.Runtime, "wasmtime ") || len(h.Runtime) > maxName) {
		err = palyra.Errorf(palyra.Unavailable, wasm.ReasonNoRuntime, "palyra-wasm speaks another version").
			WithRemedy("build and install palyrad and palyra-wasm together: make build")
	}
	if err != nil {
		w.kill("no hello")
		return nil, w.why(ctx, err)
	}
	w.runtime = h.Runtime
	return w, nil
}

// within does something with the worker in a time, and ends the worker when the caller does not wait any more.
func (w *worker) within(ctx context.Context, d time.Duration, do func() error) error {
	_ = w.p.Out.SetReadDeadline(time.Now().Add(d))
	_ = w.p.In.SetWriteDeadline(time.Now().Add(d))
	stop := context.AfterFunc(ctx, func() { w.kill("cancelled") })
	defer stop()
	closing := context.AfterFunc(w.e.ctx, func() { w.kill("stopping") })
	defer closing()
	return do()
}

// kill ends the process.
func (w *worker) kill(reason string) {
	w.mu.Lock()
	gone := w.gone
	w.gone = true
	w.mu.Unlock()
	if !gone {
		w.p.Kill(reason)
	}
}

// usable reports whether the worker can make another invocation.
func (w *worker) usable() bool {
	w.mu.Lock()
	gone := w.gone
	w.mu.Unlock()
	if !gone && w.runs >= maxRuns {
		w.kill("old")
		return false
	}
	return !gone
}

// lied is the end of a worker that does not speak as it must.
func lied(err error) error {
	return palyra.Errorf(palyra.Unavailable, wasm.ReasonWorkerLied, "the runtime's process did not answer as it must, and was ended").
		WithRemedy("call it again; if that goes on, quarantine the skill and see the daemon's log").WithCause(err)
}

// endWithin is how long is waited for the end of a process whose pipe is closed.
const endWithin = 5 * time.Second

// why names what happened to a worker that did not answer. It ends it.
func (w *worker) why(ctx context.Context, err error) error {
	if e := (*palyra.Error)(nil); errors.As(err, &e) {
		return e
	}
	w.kill("failed")
	switch {
	case ctx.Err() != nil:
		return cancelled(ctx)
	case w.e.ctx.Err() != nil:
		return stopping()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return palyra.Errorf(palyra.Unavailable, wasm.ReasonStalled, "the runtime's process did not answer in time, and was ended").
			WithRemedy("call it again; if that goes on, quarantine the skill and see the daemon's log").WithCause(err)
	case errors.Is(err, wire.ErrFrame):
		return lied(err)
	}
	limit := ""
	select {
	case <-w.p.Done:
		limit = w.p.Limit()
	case <-time.After(endWithin):
	}
	text := "the runtime's process ended"
	if limit != "" {
		text += ", at its limit of " + limit
	}
	w.e.Log.Warn("a process of palyra-wasm ended", "limit", limit, "err", err)
	return palyra.Errorf(palyra.Unavailable, wasm.ReasonWorkerDied, "%s", text).
		WithRemedy("call it again; if that goes on, quarantine the skill").WithCause(err)
}

// compile compiles a module.
func (w *worker) compile(ctx context.Context, binary []byte, k wasm.Kind, functions []string, within time.Duration) ([]byte, error) {
	var f wire.Frame
	err := w.within(ctx, within, func() error {
		err := wire.Write(w.p.In, wire.KindCompile, wire.Compile{Command: k == wasm.Command, Functions: functions}, binary)
		if err == nil {
			f, err = wire.Read(w.in, maxArtifact)
		}
		return err
	})
	if err == nil && f.Kind != wire.KindFailed {
		err = f.As(wire.KindCompiled, nil)
	}
	if err == nil && f.Kind == wire.KindFailed {
		return nil, failed(f)
	}
	if err == nil && len(f.Body) == 0 {
		err = wire.ErrFrame
	}
	if err == nil {
		return f.Body, nil
	}
	e := palyra.AsError(w.why(ctx, err))
	if e.Reason == wasm.ReasonStalled || e.Reason == wasm.ReasonWorkerDied {
		return nil, palyra.Errorf(palyra.Exhausted, wasm.ReasonCompile, "the module was not compiled within %s and %d MiB",
			within, compileMemory>>20).WithRemedy("make the module smaller").WithCause(err)
	}
	return nil, e
}

// failed is the reason of a worker for not using a module.
func failed(f wire.Frame) error {
	var why wire.Failed
	if err := f.As(wire.KindFailed, &why); err != nil {
		return lied(err)
	}
	e, ok := ends[palyra.Reason(why.Reason)]
	if !ok || e.code != palyra.Invalid {
		return lied(wire.ErrFrame)
	}
	return e.with(palyra.Reason(why.Reason), why.Text)
}

// load gives the worker its module.
func (w *worker) load(ctx context.Context, artifact []byte, k wasm.Kind) error {
	var f wire.Frame
	err := w.within(ctx, loadWithin, func() error {
		err := wire.Write(w.p.In, wire.KindLoad, wire.Load{Command: k == wasm.Command}, artifact)
		if err == nil {
			f, err = wire.Read(w.in, 0)
		}
		return err
	})
	switch {
	case err != nil:
		return w.why(ctx, err)
	case f.Kind == wire.KindFailed:
		return failed(f)
	}
	if err := f.As(wire.KindLoaded, nil); err != nil {
		return w.why(ctx, err)
	}
	return nil
}

// run makes one invocation.
func (w *worker) run(ctx context.Context, s *exchange) error {
	w.runs++
	s.res.Runtime = w.runtime
	l := s.i.Limits
	ctx, cancel := context.WithTimeout(ctx, l.Deadline+w.e.Grace)
	defer cancel()
	until := time.Now().Add(l.Deadline)
	var done wire.Done
	var body []byte
	err := w.within(ctx, l.Deadline+w.e.Grace, func() error {
		err := wire.Write(w.p.In, wire.KindRun, s.order(), s.i.Input)
		for err == nil {
			var f wire.Frame
			if f, err = wire.Read(w.in, max(l.HostBytes, l.Output+l.Logs)); err != nil {
				break
			}
			if f.Kind == wire.KindAsk {
				err = w.answer(ctx, s, f, until)
				continue
			}
			body = f.Body
			return f.As(wire.KindDone, &done)
		}
		return err
	})
	if err == nil {
		if err = s.done(ctx, done, body); errors.Is(err, wire.ErrFrame) {
			w.kill("lied")
			return lied(err)
		}
		return err
	}
	e := w.why(ctx, err)
	if errors.Is(err, os.ErrDeadlineExceeded) || (errors.Is(e, context.DeadlineExceeded) && time.Now().After(until)) {
		return ends[wasm.ReasonStalled].with(wasm.ReasonStalled, "the runtime's process did not answer in time, and was ended")
	}
	return e
}

// answer does what the instance asks for.
func (w *worker) answer(ctx context.Context, s *exchange, f wire.Frame, until time.Time) error {
	var ask wire.Ask
	if err := f.As(wire.KindAsk, &ask); err != nil {
		return err
	}
	parts, err := wire.Split(f.Body, ask.Parts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	a, body := s.serve(ctx, ask, parts)
	return wire.Write(w.p.In, wire.KindAnswer, a, body)
}

// order is what the worker is told of an invocation.
func (s *exchange) order() wire.Invoke {
	l := s.i.Limits
	seed := sha256.Sum256(append([]byte(s.i.Module.Digest+"\x00"), s.i.Input...))
	return wire.Invoke{
		Function: s.i.Function, Fuel: l.Fuel, Memory: l.Memory, Table: l.TableElements, Instances: l.Instances,
		MicroS: l.Deadline.Microseconds(), Output: l.Output, Logs: l.Logs, Answer: l.HostBytes,
		Clock: s.i.Grants.Clock, Random: s.i.Grants.Random, Seed: seed[:], Handles: s.list,
	}
}

// done takes what the worker says at the end.
func (s *exchange) done(ctx context.Context, d wire.Done, body []byte) error {
	l := s.i.Limits
	if d.Output < 0 || d.Output > int64(len(body)) || d.Output > l.Output || int64(len(body))-d.Output > l.Logs ||
		d.Fuel > l.Fuel || d.Memory < 0 || d.Memory > l.Memory || d.Clock < 0 || d.Random < 0 || len(d.Denied) > maxDenied {
		return wire.ErrFrame
	}
	s.res.Fuel, s.res.Memory, s.res.Exit, s.res.Cut = d.Fuel, d.Memory, int(d.Exit), d.Cut || s.res.Cut
	s.res.Logs = slices.Concat(s.lines, body[d.Output:])
	if int64(len(s.res.Logs)) > l.Logs {
		s.res.Logs, s.res.Cut = s.res.Logs[:l.Logs], true
	}
	s.counted(ctx, d)
	if s.trap != nil {
		return s.trap // by the daemon's own record
	}
	if d.Reason != "" {
		e, ok := ends[palyra.Reason(d.Reason)]
		if !ok {
			return wire.ErrFrame
		}
		return e.with(palyra.Reason(d.Reason), d.Text)
	}
	if !json.Valid(body[:d.Output]) {
		return ends[wasm.ReasonNotJSON].with(wasm.ReasonNotJSON, "the module's output is not JSON")
	}
	s.res.Output = json.RawMessage(body[:d.Output:d.Output])
	return nil
}

// number makes a handle: nobody guesses it, and it is never 0.
func number() int64 {
	var b [8]byte
	for {
		_, _ = io.ReadFull(rand.Reader, b[:]) // never fails
		n := int64(0)
		for _, c := range b {
			n = n<<8 | int64(c)
		}
		if n &= 1<<63 - 1; n != 0 {
			return n
		}
	}
}

// end is how a reason is answered.
type end struct {
	code   palyra.Code
	remedy string
}

func (e end) with(r palyra.Reason, text string) *palyra.Error {
	return palyra.Errorf(e.code, r, "%s", palyra.Clip(text, mostText)).WithRemedy("%s", e.remedy)
}

const mostText = 500

const (
	fixModule = "the module must be mended by its author; see docs/skills-abi.md"
	raise     = "raise that limit of the skill, if it is to do so much"
)

// ends are the reasons that a worker may give.
var ends = map[palyra.Reason]end{
	wasm.ReasonBadModule: {palyra.Invalid, fixModule},
	wasm.ReasonImport:    {palyra.Invalid, fixModule},
	wasm.ReasonExport:    {palyra.Invalid, fixModule},
	wasm.ReasonTooLarge:  {palyra.Invalid, "make the module smaller"},
	wasm.ReasonCompile:   {palyra.Invalid, "make the module smaller"},
	wasm.ReasonFuel:      {palyra.Exhausted, raise},
	wasm.ReasonDeadline:  {palyra.Exhausted, raise},
	wasm.ReasonMemory:    {palyra.Exhausted, raise},
	wasm.ReasonTable:     {palyra.Exhausted, raise},
	wasm.ReasonInstances: {palyra.Exhausted, raise},
	wasm.ReasonStack:     {palyra.Exhausted, fixModule},
	wasm.ReasonOutput:    {palyra.Exhausted, raise},
	wasm.ReasonHostCalls: {palyra.Exhausted, raise},
	wasm.ReasonHostBytes: {palyra.Exhausted, raise},
	wasm.ReasonTrap:      {palyra.Internal, "look at what the module logged"},
	wasm.ReasonHandle:    {palyra.Denied, "grant the skill what it needs, and have it ask for the handle by its name"},
	wasm.ReasonPointer:   {palyra.Internal, fixModule},
	wasm.ReasonExit:      {palyra.Internal, "look at what the module logged"},
	wasm.ReasonNotJSON:   {palyra.Internal, fixModule},
	wasm.ReasonStalled:   {palyra.Unavailable, "call it again; if that goes on, quarantine the skill and see the daemon's log"},
}
