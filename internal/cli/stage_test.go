//go:build linux

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/questiontest"
	"palyra/internal/identity"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/tools"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"

	rpcaccess "palyra/internal/rpc/access"
)

// stage is a daemon that only pretends: real doors and real people, and behind
// them commands that a test plays.
type stage struct {
	env        []string // besides PALYRA_HOME
	t          *testing.T
	home, work string
	parts      *rpctest.Parts
	stop       func()                       // closes the doors
	play       func(*played) palyra.Outcome // the command
	ask        bool                         // policy asks about it
	before     func(*played)                // happens before that; set before anything is called

	looked atomic.Int64 // how often a call was looked at

	mu      sync.Mutex
	calls   map[palyra.CallID]*played
	started chan *played
	answer  chan palyra.Answer
}

// played is one call on the stage.
type played struct {
	id     palyra.CallID
	ctx    context.Context // ends when the call is cancelled
	cancel context.CancelFunc
	p      palyra.Proposal
	args   proposal.Arguments
	watch  palyra.Watch
	feed   chan palyra.Feed
	over   chan struct{}

	mu    sync.Mutex
	state palyra.State
	n     map[string]int64
}

func openStage(t *testing.T, play func(*played) palyra.Outcome) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "palyra")
	fatal(t, err)
	s := &stage{
		t: t, home: filepath.Join(dir, "home"), work: filepath.Join(dir, "work"), play: play,
		calls: map[palyra.CallID]*played{}, started: make(chan *played, 8), answer: make(chan palyra.Answer, 1),
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, d := range []string{s.home, s.work, filepath.Join(s.home, "run")} {
		fatal(t, os.Mkdir(d, 0o700))
	}
	signer, err := identity.Create(filepath.Join(s.home, "operator.key"))
	fatal(t, err)
	engine, err := sqlite.Open(filepath.Join(s.home, "state.db"))
	fatal(t, err)
	db, err := store.Open(t.Context(), engine, access.Schema())
	fatal(t, err)
	t.Cleanup(func() { _ = db.Close() })
	reg, err := access.New(access.Config{DB: db, Journal: nowhere{}, StateID: rpctest.StateID, Now: time.Now})
	fatal(t, err)
	_, err = reg.AddFirstOwner(t.Context(), palyra.Operator{Principal: "user:ann", PublicKey: signer.Public()}, int64(os.Geteuid()))
	fatal(t, err)
	s.serve(reg)
	return s
}

// serve opens the doors until the test ends.
func (s *stage) serve(reg *access.Registry) {
	s.parts = &rpctest.Parts{Registry: rpcaccess.Registry{Keys: reg, People: reg, Tokens: reg, Roles: reg}, OnDecide: s.decided}
	services := s.parts.Services()
	services[1] = tools.New(oneTool{}, s, s)
	srv, err := rpc.New(rpc.Config{
		AgentSocket: filepath.Join(s.home, "run", "agent.sock"), OperatorSocket: filepath.Join(s.home, "run", "operator.sock"),
		StateID: rpctest.StateID, Access: reg, Agents: reg, Roles: reg, Journal: nowhere{}, Services: services, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	fatal(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	s.t.Cleanup(s.stop)
}

// asks makes policy ask about every command.
func (s *stage) asks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask = true
}

// plays makes f the command.
func (s *stage) plays(f func(*played) palyra.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.play = f
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type nowhere struct{}

func (nowhere) Append(*store.Tx, palyra.Event) (palyra.Position, error) {
	return palyra.Position{}, nil
}

func (nowhere) Record(context.Context, ...palyra.Event) (palyra.Position, error) {
	return palyra.Position{}, nil
}

type oneTool struct{}

func (oneTool) Tools(context.Context) ([]palyra.Tool, error) { return []palyra.Tool{rpctest.Echo}, nil }

func (oneTool) Tool(context.Context, string) (palyra.Tool, error) { return rpctest.Echo, nil }

// pendingQuestion is the one approval of the stage.
func pendingQuestion() palyra.Approval {
	a := questiontest.ProcessApproval()
	a.ID, a.Call, a.ExpiresAt = "A1", "C1", time.Now().Add(time.Hour)
	return a
}

func (s *stage) decided(v palyra.Vote) (palyra.Approval, error) {
	a := rpctest.Question
	a.Decision = palyra.Decision{Approval: a.ID, Answer: v.Answer, Scope: v.Scope, By: "user:ann", At: time.Now()}
	s.answer <- v.Answer
	return a, nil
}

// Call implements tools.Calls.
func (s *stage) Call(_ context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &played{
		id: "C1", ctx: ctx, cancel: cancel, p: p, watch: w, feed: make(chan palyra.Feed, 8), over: make(chan struct{}),
		state: palyra.Proposed, n: map[string]int64{},
	}
	defer close(x.over)
	_ = json.Unmarshal(p.Arguments, &x.args)
	s.mu.Lock()
	s.calls[x.id] = x
	s.mu.Unlock()
	w.Event(&palyra.Call{}, palyra.CallProposed{Call: x.id, Session: "S1"})
	o := s.walk(x)
	x.become(palyra.Finished)
	o.CallID, o.Tool = x.id, p.Tool
	return o, nil
}

// walk takes a call past the question.
func (s *stage) walk(x *played) palyra.Outcome {
	s.mu.Lock()
	ask, play, before := s.ask, s.play, s.before
	s.mu.Unlock()
	if before != nil {
		before(x)
	}
	if ask {
		x.become(palyra.Pending)
		q := rpctest.Question
		x.watch.Event(&palyra.Call{}, palyra.ApprovalRequested{Approval: q.ID, Plan: q.PlanDigest, ExpiresAt: q.ExpiresAt, Record: q})
		if x.p.NoWait {
			return palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalNotAwaited, ApprovalID: q.ID}
		}
		select {
		case <-x.ctx.Done():
			return cancelled
		case a := <-s.answer:
			c := &palyra.Call{Decision: palyra.Decision{Approval: q.ID, Answer: a, By: "user:ann"}}
			x.watch.Event(c, palyra.CallJudged{Again: true})
			if a != palyra.AnswerAllow {
				return palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalDenied, Reason: "denied by user:ann"}
			}
		}
	}
	x.become(palyra.Running)
	if x.watch.Running != nil {
		x.watch.Running(&palyra.Call{})
	}
	s.started <- x
	return play(x)
}

var cancelled = palyra.Outcome{Outcome: palyra.OutcomeCancelled, ReasonCode: palyra.ReasonCancelled, Reason: "cancelled"}

func (x *played) become(s palyra.State) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state = s
}

// print is what the command prints.
func (x *played) print(stream, text string) {
	if x.watch.Output == nil {
		return
	}
	x.mu.Lock()
	at := x.n[stream]
	x.n[stream] += int64(len(text))
	x.mu.Unlock()
	x.watch.Output(palyra.Chunk{Stream: stream, Offset: at, Data: []byte(text)})
}

// Check implements tools.Calls.
func (s *stage) Check(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	p.Check = true
	return s.Call(ctx, p, w)
}

// Watch implements tools.Calls.
func (s *stage) Watch(_ context.Context, id palyra.CallID, _ palyra.Watch) (palyra.Outcome, error) {
	return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: id}, nil
}

// Send implements tools.Calls.
func (s *stage) Send(ctx context.Context, id palyra.CallID, _ palyra.Reach, f palyra.Feed) error {
	s.mu.Lock()
	x := s.calls[id]
	s.mu.Unlock()
	ended := palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "call %s has ended", id)
	select {
	case <-x.over:
		return ended
	default:
	}
	select {
	case x.feed <- f:
		return nil
	case <-x.over:
		return ended
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cancel implements tools.Calls.
func (s *stage) Cancel(_ context.Context, id palyra.CallID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id].cancel()
	return nil
}

// Get implements tools.Calls.
func (s *stage) Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.calls[id]
	x.mu.Lock()
	defer x.mu.Unlock()
	return &palyra.Call{ID: id, State: x.state, Proposal: palyra.Proposal{Principal: rpc.CallerOf(ctx).Principal, Credential: rpc.CallerOf(ctx).CredentialID}}, nil
}

// List implements tools.Calls.
func (s *stage) List(context.Context, palyra.CallFilter) ([]*palyra.Call, palyra.CallID, error) {
	return nil, "", nil
}

// Held implements tools.Record. Only GetCall asks.
func (s *stage) Held(context.Context, palyra.CallID) error {
	s.looked.Add(1)
	return nil
}

// finished is an outcome with what the command printed.
func finished(code int, stdout, stderr string) palyra.Outcome {
	o := palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: code, GrantID: "G1", JournalPosition: 9}
	o.SetStreams([]byte(stdout), []byte(stderr))
	return o
}

// command is palyra as a process of its own, without a terminal.
func (s *stage) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), "palyra", args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "PALYRA_HOME="+s.home, "NO_COLOR=1"), s.work
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// at starts palyra at a terminal.
func (s *stage) at(args ...string) *atTerminal {
	s.t.Helper()
	return onTerminal(s.t, s.work, []string{"PALYRA_HOME=" + s.home, "NO_COLOR=1", "TERM=xterm"}, "palyra", args...)
}

// main runs palyra here.
func (s *stage) main(stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	s.t.Chdir(s.work)
	var out, errs bytes.Buffer
	code = Main(s.t.Context(), Process{Args: args, Env: append([]string{"PALYRA_HOME=" + s.home}, s.env...), Stdin: stdin, Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// running waits until a command runs.
func (s *stage) running() *played {
	s.t.Helper()
	select {
	case x := <-s.started:
		return x
	case <-time.After(patience):
		s.t.Fatal("nothing runs")
		return nil
	}
}

// fed waits for the next piece that is fed to the command.
func (x *played) fed(t *testing.T) palyra.Feed {
	t.Helper()
	select {
	case f := <-x.feed:
		return f
	case <-time.After(patience):
		t.Fatal("nothing is fed")
		return palyra.Feed{}
	}
}

// read takes what is fed until its end.
func (x *played) read() string {
	var b strings.Builder
	for {
		select {
		case f := <-x.feed:
			b.Write(f.Data)
			if f.End {
				return b.String()
			}
		case <-x.ctx.Done():
			return b.String()
		}
	}
}

// A group that has a list shows it when it is called alone.
func TestGroupsList(t *testing.T) {
	s := openStage(t, nil)
	for _, group := range []string{"calls", "tools"} {
		code, alone, errs := s.main(nil, group)
		_, listed, _ := s.main(nil, group, "list")
		if code != exit.OK || alone == "" || alone != listed {
			t.Errorf("%s: %d %q %q, and list %q", group, code, alone, errs, listed)
		}
	}
}
