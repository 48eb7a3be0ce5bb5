package sandbox

import (
	"context"
	"io"
	"sync"
	"time"

	"palyra"
)

// Service is a program that runs until it is stopped, and is spoken to over its stdin and stdout:
// an MCP server. Its start is no call, and has no grant: only what an operator has signed may be
// started, which the caller of Serve has checked. Everything else holds as for a granted run.
type Service struct {
	// Stdin and Stdout belong to the caller, who closes them.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	l    *runStart
	way  Gateway // nil: it has no network
	proc Process
	tail tail
	done chan struct{}

	// Known once Done is closed.
	exit Exit
	err  error
}

// serviceDrain is how long a dead program's stderr is read.
const serviceDrain = 200 * time.Millisecond

// Serve starts the plan's program as a service. The context bounds the start, not
// the service. The plan must be for a tier with a room of its own, with live stdin.
func (r *Runner) Serve(ctx context.Context, id palyra.CallID, p palyra.Plan) (*Service, error) {
	if !r.enter() {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping")
	}
	l := &runStart{Runner: r, call: id, plan: p, serves: true}
	s, err := l.serve(ctx)
	if err != nil {
		l.clean()
		r.busy.Done()
		return nil, err
	}
	return s, nil
}

// serve checks and starts.
func (l *runStart) serve(ctx context.Context) (*Service, error) {
	b, err := l.serviceable(ctx)
	if err != nil {
		return nil, err
	}
	l.backend = b
	if err := l.prepare(ctx); err != nil {
		return nil, l.plan.Stopped(ctx, err)
	}
	l.handed = true
	proc, err := b.Start(ctx, l.job)
	if err != nil {
		return nil, notStarted(ctx, l.plan, err)
	}
	s := &Service{Stdin: l.own.in, Stdout: l.own.out, l: l, way: l.gateway, proc: proc, done: make(chan struct{})}
	go s.follow()
	return s, nil
}

// serviceable refuses a plan that cannot be honoured, as check does for a run.
func (l *runStart) serviceable(ctx context.Context) (Backend, error) {
	b, err := l.Runner.backend(l.plan.Tier)
	if err != nil {
		return nil, err
	}
	if !walled(b) || l.plan.Stdin != palyra.StdinLive || l.plan.Terminal || l.plan.AgentSocket {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the plan is not one of a service")
	}
	if err := l.runnable(l.plan, b); err != nil {
		return nil, err
	}
	held, err := b.Probe(ctx, l.plan.Limits)
	if err == nil {
		err = l.probed(l.plan.Tier)
	}
	if err != nil {
		return nil, l.plan.Stopped(ctx, err)
	}
	if lacks := Lacks(withoutMechanisms(l.plan.Enforcement, l.byUs()...), l.ours(b, held)); len(lacks) > 0 {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "less would hold than the plan promises: %s",
			fewNames(lacks)).
			WithRemedy("see 'palyra sandbox doctor'")
	}
	return b, nil
}

// follow waits until nothing of the service is left.
func (s *Service) follow() {
	defer s.l.busy.Done()
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(&s.tail, s.l.own.err) })
	s.exit, s.err = s.proc.Wait()
	_ = s.l.own.err.SetReadDeadline(time.Now().Add(serviceDrain)) // another process may hold it open
	reader.Wait()
	s.l.closeGateway()
	s.exit.Remnants = append(s.exit.Remnants, s.l.planted()...)
	s.l.report(context.Background(), &palyra.Call{ID: s.l.call}, s.exit)
	s.l.clean()
	close(s.done)
}

// Done is closed when nothing of the service is left.
func (s *Service) Done() <-chan struct{} { return s.done }

// Stop ends the whole tree. It does not wait for that; Done does.
func (s *Service) Stop(reason string) { s.proc.Stop(reason, s.l.Grace) }

// Exit is how it ended, once Done is closed. An error means that its cell was lost.
func (s *Service) Exit() (Exit, error) { return s.exit, s.err }

// Flows returns the connections through its gateway so far; more says how many are not listed.
func (s *Service) Flows() (flows []palyra.EgressFlow, more int64) {
	if s.way == nil {
		return nil, 0
	}
	return s.way.Flows()
}

// Stderr is the end of its stderr.
func (s *Service) Stderr() []byte { return s.tail.bytes() }

// Executor names its backend.
func (s *Service) Executor() string { return s.l.backend.Executor() }

// Enforcement is what holds for it, as promised: the backend refuses to start with less.
func (s *Service) Enforcement() palyra.Enforcement { return s.l.plan.Enforcement }

// tail keeps the end of a stream.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 16 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b[max(0, len(b)-tailBytes):]...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(b), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.b...)
}
