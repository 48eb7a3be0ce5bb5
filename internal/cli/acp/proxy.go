package acp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"palyra"
	"palyra/client"
)

// Daemon is the daemon as this package uses it; *client.Client is one.
type Daemon interface {
	client.Caller
	// Check asks whether a call may be made by the agent's own tools.
	Check(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error)
}

// Config wires a Proxy. Zero times get the defaults.
type Config struct {
	Daemon  Daemon
	Agent   string // its name, for names of sessions
	Shell   string // takes commands that are not a program's name
	Log     *slog.Logger
	AnyMode bool // the agent's modes in which it asks nobody may be set

	ViewAfter time.Duration // a question open this long is shown in the editor; default 2 s
}

// Proxy stands between an editor and an agent.
type Proxy struct {
	Config
	sessions *sessions
	told     tellings
	editor   *side
	agent    *side
}

const defaultViewAfter = 2 * time.Second

// New returns a proxy.
func New(c Config) (*Proxy, error) {
	if c.Daemon == nil || c.Log == nil || c.Shell == "" {
		return nil, errors.New("acp: new: incomplete config")
	}
	if c.ViewAfter <= 0 {
		c.ViewAfter = defaultViewAfter
	}
	return &Proxy{Config: c, sessions: newSessions(c.Agent)}, nil
}

// Pipes are the two directions of a connection.
type Pipes struct {
	In  io.Reader
	Out io.Writer
}

// Run passes messages on until one side hangs up or ctx ends. Then all that waits is withdrawn, and all that runs ended.
func (p *Proxy) Run(ctx context.Context, editor, agent Pipes) error {
	start := make(chan struct{})
	p.editor = connect(editor.In, editor.Out, start, handler{request: p.fromEditor, note: p.editorTells, notes: editorNotes})
	p.agent = connect(agent.In, agent.Out, start, handler{request: p.fromAgent, note: p.agentTells, notes: agentNotes, first: p.told.hears})
	close(start)
	defer p.sessions.closeAll()
	select {
	case <-p.editor.conn.Done():
		return nil
	case <-p.agent.conn.Done():
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "the agent ended the connection").
			WithRemedy("see what the agent says; no line of ACP may have more than %d bytes", maxMessage)
	case <-ctx.Done():
		return nil
	}
}

// checker proposes calls that are only judged.
type checker struct{ Daemon }

// Call implements client.Caller.
func (c checker) Call(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	return c.Check(ctx, r, watch)
}

// withdrawing is how long the daemon may take over a cancel.
const withdrawing = 5 * time.Second

// pass takes a call through the gate. When ctx ends, or the person at the editor says no, it is withdrawn.
func (p *Proxy) pass(ctx context.Context, n *talk, caller client.Caller, r client.CallRequest, v view) (palyra.Outcome, error) {
	ctx, done := n.within(ctx)
	defer done()
	stir := make(chan struct{}, 1)
	f := client.Follow(caller, r, client.FollowOptions{Watch: func(client.CallEvent) { wake(stir) }, Lost: func(error) {}})
	defer f.Close()
	no := make(chan struct{})
	w := p.newWindow(n, v, no)
	defer w.shut()
	for {
		select {
		case <-f.Done():
			return f.Outcome()
		case <-stir:
			w.follow(f.Progress().Question)
			continue
		case <-ctx.Done():
		case <-no:
		}
		w.shut()
		patience, enough := context.WithTimeout(context.WithoutCancel(ctx), withdrawing)
		defer enough()
		_ = f.Cancel(patience)
		return f.Outcome()
	}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
