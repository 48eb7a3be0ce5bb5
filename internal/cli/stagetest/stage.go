//go:build linux

package stagetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/ptytest"
	"palyra/internal/cli/questiontest"
	"palyra/internal/identity"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/tools"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"

	rpcaccess "palyra/internal/rpc/access"
)

// Stage is a simulated daemon: real doors and real people, and behind them commands that a test plays.
type Stage struct {
	Env        []string // besides PALYRA_HOME
	t          *testing.T
	program    Program
	Home, Work string
	Parts      *rpctest.Parts
	Stop       func()                       // closes the doors
	play       func(*Played) palyra.Outcome // the command
	ask        bool                         // policy asks about it
	Before     func(*Played)                // happens before that; set before anything is called

	Looked atomic.Int64 // how often a call was looked at

	mu      sync.Mutex
	calls   map[palyra.CallID]*Played
	Started chan *Played
	Answer  chan palyra.Answer
}

// Played is one call on the stage.
type Played struct {
	id       palyra.CallID
	Ctx      context.Context // ends when the call is cancelled
	Cancel   context.CancelFunc
	Proposal palyra.Proposal
	Args     proposal.Arguments
	watch    palyra.Watch
	Feed     chan palyra.Feed
	over     chan struct{}

	Mu    sync.Mutex
	state palyra.State
	Sent  map[string]int64
}

// Open opens the doors of a stage, on which main is the command and play the program that it runs.
func Open(t *testing.T, main Program, play func(*Played) palyra.Outcome) *Stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "palyra")
	Fatal(t, err)
	s := &Stage{
		t: t, program: main, Home: filepath.Join(dir, "home"), Work: filepath.Join(dir, "work"), play: play,
		calls: map[palyra.CallID]*Played{}, Started: make(chan *Played, 8), Answer: make(chan palyra.Answer, 1),
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, d := range []string{s.Home, s.Work, filepath.Join(s.Home, "run")} {
		Fatal(t, os.Mkdir(d, 0o700))
	}
	signer, err := identity.Create(filepath.Join(s.Home, "operator.key"))
	Fatal(t, err)
	engine, err := sqlite.Open(filepath.Join(s.Home, "state.db"))
	Fatal(t, err)
	db, err := store.Open(t.Context(), engine, access.Schema())
	Fatal(t, err)
	t.Cleanup(func() { _ = db.Close() })
	reg, err := access.New(access.Config{DB: db, Journal: nowhere{}, StateID: rpctest.StateID, Now: time.Now})
	Fatal(t, err)
	_, err = reg.AddFirstOwner(t.Context(), palyra.Operator{Principal: "user:ann", PublicKey: signer.Public()}, int64(os.Geteuid()))
	Fatal(t, err)
	s.serve(reg)
	return s
}

// serve opens the doors until the test ends.
func (s *Stage) serve(reg *access.Registry) {
	s.Parts = &rpctest.Parts{Registry: rpcaccess.Registry{Keys: reg, People: reg, Tokens: reg, Roles: reg}, OnDecide: s.decided}
	services := s.Parts.Services()
	services[1] = tools.New(oneTool{}, s, s)
	srv, err := rpc.New(rpc.Config{
		AgentSocket: filepath.Join(s.Home, "run", "agent.sock"), OperatorSocket: filepath.Join(s.Home, "run", "operator.sock"),
		StateID: rpctest.StateID, Access: reg, Agents: reg, Roles: reg, Journal: nowhere{}, Services: services,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	Fatal(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	s.Stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	s.t.Cleanup(s.Stop)
}

// Asks makes policy ask about every command.
func (s *Stage) Asks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ask = true
}

// Plays makes f the command.
func (s *Stage) Plays(f func(*Played) palyra.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.play = f
}

// Fatal ends the test on an error.
func Fatal(t *testing.T, err error) {
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

func (oneTool) Tool(context.Context, palyra.ToolName) (palyra.Tool, error) { return rpctest.Echo, nil }

// PendingQuestion is the one approval of the stage.
func PendingQuestion() palyra.Approval {
	a := questiontest.ProcessApproval()
	a.ID, a.Call, a.ExpiresAt = "A1", "C1", time.Now().Add(time.Hour)
	return a
}

func (s *Stage) decided(v palyra.Vote) (palyra.Approval, error) {
	a := rpctest.Question
	a.Decision = palyra.Decision{Approval: a.ID, Answer: v.Answer, Scope: v.Scope, By: "user:ann", At: time.Now()}
	s.Answer <- v.Answer
	return a, nil
}

// CallTied implements tools.Calls.
func (s *Stage) CallTied(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	return s.Call(ctx, p, w)
}

// Call implements tools.Calls.
func (s *Stage) Call(_ context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &Played{
		id: "C1", Ctx: ctx, Cancel: cancel, Proposal: p, watch: w, Feed: make(chan palyra.Feed, 8), over: make(chan struct{}),
		state: palyra.Proposed, Sent: map[string]int64{},
	}
	defer close(x.over)
	_ = json.Unmarshal(p.Arguments, &x.Args)
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
func (s *Stage) walk(x *Played) palyra.Outcome {
	s.mu.Lock()
	ask, play, before := s.ask, s.play, s.Before
	s.mu.Unlock()
	if before != nil {
		before(x)
	}
	if ask {
		x.become(palyra.Pending)
		q := rpctest.Question
		x.watch.Event(&palyra.Call{}, palyra.ApprovalRequested{Approval: q.ID, Plan: q.PlanDigest, ExpiresAt: q.ExpiresAt, Record: q})
		if x.Proposal.NoWait {
			return palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalNotAwaited, ApprovalID: q.ID}
		}
		select {
		case <-x.Ctx.Done():
			return Cancelled
		case a := <-s.Answer:
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
	s.Started <- x
	return play(x)
}

// Cancelled is the outcome of a call that was cancelled.
var Cancelled = palyra.Outcome{Outcome: palyra.OutcomeCancelled, ReasonCode: palyra.ReasonCancelled, Reason: "cancelled"}

func (x *Played) become(s palyra.State) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	x.state = s
}

// Print is what the command prints.
func (x *Played) Print(stream, text string) {
	if x.watch.Output == nil {
		return
	}
	x.Mu.Lock()
	at := x.Sent[stream]
	x.Sent[stream] += int64(len(text))
	x.Mu.Unlock()
	x.watch.Output(palyra.Chunk{Stream: stream, Offset: at, Data: []byte(text)})
}

// Check implements tools.Calls.
func (s *Stage) Check(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	p.Check = true
	return s.Call(ctx, p, w)
}

// Observe implements tools.Calls.
func (s *Stage) Observe(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	p.Check, p.Observe = true, true
	return s.Call(ctx, p, w)
}

// Watch implements tools.Calls.
func (s *Stage) Watch(_ context.Context, id palyra.CallID, _ palyra.Watch) (palyra.Outcome, error) {
	return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: id}, nil
}

// Send implements tools.Calls.
func (s *Stage) Send(ctx context.Context, id palyra.CallID, _ palyra.Reach, f palyra.Feed) error {
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
	case x.Feed <- f:
		return nil
	case <-x.over:
		return ended
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cancel implements tools.Calls.
func (s *Stage) Cancel(_ context.Context, id palyra.CallID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id].Cancel()
	return nil
}

// Get implements tools.Calls.
func (s *Stage) Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.calls[id]
	x.Mu.Lock()
	defer x.Mu.Unlock()
	return &palyra.Call{ID: id, State: x.state, Proposal: palyra.Proposal{
		Proposer: palyra.Proposer{Principal: rpc.CallerOf(ctx).Principal, Credential: rpc.CallerOf(ctx).CredentialID},
	}}, nil
}

// List implements tools.Calls.
func (s *Stage) List(context.Context, palyra.CallFilter) ([]*palyra.Call, palyra.CallID, error) {
	return nil, "", nil
}

// Held implements tools.Record. Only GetCall asks.
func (s *Stage) Held(context.Context, palyra.CallID) error {
	s.Looked.Add(1)
	return nil
}

// Finished is an outcome with what the command printed.
func Finished(code int, stdout, stderr string) palyra.Outcome {
	o := palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: code, GrantID: "G1", JournalPosition: 9}
	o.SetStreams([]byte(stdout), []byte(stderr))
	return o
}

// Command is palyra as a process of its own, without a terminal.
func (s *Stage) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), "palyra", args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "PALYRA_HOME="+s.Home, "NO_COLOR=1"), s.Work
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// At starts palyra at a terminal.
func (s *Stage) At(args ...string) *AtTerminal {
	s.t.Helper()
	return OnTerminal(s.t, s.Work, []string{"PALYRA_HOME=" + s.Home, "NO_COLOR=1", "TERM=xterm"}, "palyra", args...)
}

// Main runs palyra here.
func (s *Stage) Main(stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	s.t.Chdir(s.Work)
	var out, errs bytes.Buffer
	code = s.program(s.t.Context(), invocation.Process{
		Args: args, Env: append([]string{"PALYRA_HOME=" + s.Home}, s.Env...), Stdin: stdin,
		Stdout: &out, Stderr: &errs,
	})
	return code, out.String(), errs.String()
}

// Running waits until a command runs.
func (s *Stage) Running() *Played {
	s.t.Helper()
	select {
	case x := <-s.Started:
		return x
	case <-time.After(Patience):
		s.t.Fatal("nothing runs")
		return nil
	}
}

// Fed waits for the next piece that is fed to the command.
func (x *Played) Fed(t *testing.T) palyra.Feed {
	t.Helper()
	select {
	case f := <-x.Feed:
		return f
	case <-time.After(Patience):
		t.Fatal("nothing is fed")
		return palyra.Feed{}
	}
}

// Read takes what is fed until its end.
func (x *Played) Read() string {
	var b strings.Builder
	for {
		select {
		case f := <-x.Feed:
			b.Write(f.Data)
			if f.End {
				return b.String()
			}
		case <-x.Ctx.Done():
			return b.String()
		}
	}
}

// AtTerminal is a program at a terminal.
type AtTerminal struct {
	*ptytest.Terminal
	t    *testing.T
	Pty  *os.File
	Cmd  *exec.Cmd
	Seen *bytes.Buffer
}

// OnTerminal starts a program at a terminal of its own.
func OnTerminal(t *testing.T, dir string, env []string, name string, args ...string) *AtTerminal {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	s := ptytest.Start(t, cmd, ptytest.Options{Rows: 50, Cols: 100, Patience: Patience})
	return &AtTerminal{Terminal: s, t: t, Pty: s.PTY, Cmd: cmd, Seen: &s.Seen}
}

// Send types a text. What was seen so far is forgotten.
func (s *AtTerminal) Send(text string) {
	s.t.Helper()
	s.Seen.Reset()
	s.Type(text)
}

// Start runs palyra as a process and waits until it knows that its command runs.
func (s *Stage) Start(args ...string) (*exec.Cmd, *bytes.Buffer, *Played) {
	s.t.Helper()
	cmd := s.Command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	Fatal(s.t, err)
	Fatal(s.t, cmd.Start())
	x := s.Running()
	x.Print("stdout", "ready")
	_, err = out.Read(make([]byte, 5))
	Fatal(s.t, err)
	return cmd, &errs, x
}

// Script writes a script into the stage's directory.
func (s *Stage) Script() string {
	s.t.Helper()
	path := filepath.Join(s.Work, "steps.yaml")
	Fatal(s.t, os.WriteFile(path, []byte(AScript), 0o600))
	return path
}

// Write puts a whole tape on the stage.
func (s *Stage) Write(entries ...palyra.TapeEntry) *rpctest.FakeTape {
	t := s.Parts.Tape("R1")
	for _, e := range entries {
		t.Write(e)
	}
	return t
}

// Mode is how the terminal treats what is typed.
func (s *AtTerminal) Mode() unix.Termios {
	s.t.Helper()
	raw, err := s.Pty.SyscallConn()
	Fatal(s.t, err)
	var m *unix.Termios
	Fatal(s.t, raw.Control(func(fd uintptr) { m, err = unix.IoctlGetTermios(int(fd), unix.TCGETS) }))
	Fatal(s.t, err)
	return *m
}

func (s *AtTerminal) Resize(rows, cols uint16) {
	s.t.Helper()
	raw, err := s.Pty.SyscallConn()
	Fatal(s.t, err)
	Fatal(s.t, raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}))
	Fatal(s.t, err)
}

// Eventually waits for something that another process does.
func Eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(Patience); !f(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}

// AScript is what a scripted run can be given.
const AScript = "title: steps\nturns: []\n"

// Expect waits for a text.
func (s *AtTerminal) Expect(text string) { s.t.Helper(); s.Terminal.Expect(text) }

// ExpectSecret waits for a prompt after which nothing is shown.
func (s *AtTerminal) ExpectSecret(prompt string) {
	s.t.Helper()
	s.Terminal.Secret(regexp.QuoteMeta(prompt))
}

// End waits for the end and returns the exit code.
func (s *AtTerminal) End() int { s.t.Helper(); return s.Terminal.End() }

// Printed implements the door's Calls: there are no background processes.
func (s *Stage) Printed(palyra.CallID, int64, int) (none palyra.Chunk, size int64, running bool) {
	return none, 0, false
}
