package acp

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/processargs"
)

// Bounds on terminals.
const (
	maxTerminals  = 32 // of a session, with those that have ended and are not released
	defaultOutput = 1 << 20
	maxOutput     = 4 << 20 // bytes that are kept of one
)

// terminal is a program that the agent had started, behind the gate.
type terminal struct {
	title string
	call  *client.Following
	view  *window
	limit int
	ended chan struct{}

	mu     sync.Mutex // guards what follows; a leaf
	output []byte
	cut    bool
	status sdk.TerminalExitStatus // valid after ended
}

// createTerminal starts a program as 'palyra exec --tier c' does. It is answered at once; what the
// gate says is the program's output.
func (p *Proxy) createTerminal(_ context.Context, r sdk.CreateTerminalRequest) (out sdk.CreateTerminalResponse, err error) {
	n, err := p.sessions.find(r.SessionId)
	if err != nil {
		return out, err
	}
	request, err := p.program(n, r)
	if err != nil {
		return out, err
	}
	t := &terminal{title: strings.Join(append([]string{r.Command}, r.Args...), " "), limit: defaultOutput, ended: make(chan struct{})}
	if r.OutputByteLimit != nil {
		t.limit = max(0, min(*r.OutputByteLimit, maxOutput))
	}
	id := rand.Text()
	n.mu.Lock()
	full := len(n.terminals) >= maxTerminals
	if !full {
		n.terminals[id] = t
	}
	n.mu.Unlock()
	if full {
		return out, refusal("the session has %d terminals%s", maxTerminals, remedyText("release those that are not needed"))
	}
	p.start(n, t, request)
	out.TerminalId = id
	return out, nil
}

// marks are variables that only say who started a program, with the values that say it. They are left out: a command
// with a variable that nothing is known of is asked about, however plain it is.
var marks = map[string]string{"CLAUDECODE": "1"} // of claude-code-acp 0.16.2

// program is the call that a terminal amounts to.
func (p *Proxy) program(n *talk, r sdk.CreateTerminalRequest) (client.CallRequest, error) {
	none := client.CallRequest{}
	cwd := n.roots[0]
	if r.Cwd != nil && *r.Cwd != "" {
		cwd = *r.Cwd
	}
	root, dir, err := n.place(cwd)
	if err != nil {
		return none, err
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || r.Command == "" {
		return none, badParams("a terminal needs a command, and a directory of the session")
	}
	args := processargs.Arguments{Command: r.Command, Args: r.Args, Cwd: rel, Tier: "c", Env: map[string]string{}}
	if len(r.Args) == 0 && strings.ContainsAny(r.Command, " \t\n;|&<>()$`'\"*?[]{}~#!\\") { // some agents send a shell's line
		args.Command, args.Args = p.Shell, []string{"-c", r.Command}
	}
	for _, v := range r.Env {
		if _, twice := args.Env[v.Name]; twice || v.Name == "" {
			return none, badParams("a variable has no name, or comes twice")
		}
		if marks[v.Name] != v.Value || v.Value == "" {
			args.Env[v.Name] = v.Value
		}
	}
	raw, err := processargs.Encode(args)
	if err != nil {
		return none, badParams("the command cannot be sent")
	}
	return n.request(root, client.CallRequest{
		Tool: palyra.ToolProcessRun, Arguments: raw, Key: "acp/" + rand.Text(), Surface: palyra.SurfaceACP, StreamOutput: true,
	}), nil
}

// start proposes the call, and follows it until it has ended.
func (p *Proxy) start(n *talk, t *terminal, r client.CallRequest) {
	no := make(chan struct{})
	t.view = p.newWindow(n, p.ownView(sdk.ToolKindExecute), no)
	stir := make(chan struct{}, 1)
	t.call = client.Follow(p.Daemon, r, client.FollowOptions{
		Watch: func(e client.CallEvent) {
			if e.Output != nil {
				t.print(e.Output.Data)
				return
			}
			wake(stir)
		},
		Lost: func(error) {},
	})
	go func() {
		defer close(t.ended)
		defer t.view.shut()
		for {
			select {
			case <-t.call.Done():
				t.end(t.call.Outcome())
				t.call.Close()
				return
			case <-stir:
				t.view.follow(t.call.Progress().Question)
			case <-no:
				no = nil
				go t.kill()
			}
		}
	}()
}

// print keeps the last of what was printed.
func (t *terminal) print(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output = append(t.output, b...)
	if over := len(t.output) - t.limit; over > 0 {
		t.output, t.cut = append([]byte(nil), t.output[over:]...), true
	}
}

// end keeps how the program ended; what did not run says why, as 'palyra exec' does.
func (t *terminal) end(o palyra.Outcome, err error) {
	code := o.ExitCode
	switch {
	case err != nil:
		_, _, text := explained(err)
		t.print([]byte("palyra: " + text + "\n"))
		code = exit.Palyra
	case o.Outcome == palyra.OutcomeFinished && o.Signal != "":
		t.mu.Lock()
		t.status.Signal = &o.Signal
		t.mu.Unlock()
		return
	case o.Outcome != palyra.OutcomeFinished:
		t.print([]byte("palyra: " + refused(o) + "\n"))
		code = exitOf(o.Outcome)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.ExitCode = &code
}

// exitOf is the exit code of 'palyra exec' for a program that did not finish.
func exitOf(o palyra.OutcomeKind) int {
	switch o {
	case palyra.OutcomeRefused:
		return exit.Refused
	case palyra.OutcomeTimedOut:
		return exit.Timeout
	case palyra.OutcomeCancelled:
		return exit.Cancelled
	}
	return exit.Palyra
}

// kill ends the program, or withdraws its question.
func (t *terminal) kill() {
	ctx, done := context.WithTimeout(context.Background(), withdrawing)
	defer done()
	_ = t.call.Cancel(ctx)
	<-t.ended
}

// shown is what was printed, as text.
func (t *terminal) shown() (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.output
	for t.cut && len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return strings.ToValidUTF8(string(b), "\ufffd"), t.cut
}

// find is the terminal of a request: one of its own session.
func (p *Proxy) terminal(id sdk.SessionId, name string) (*talk, *terminal, error) {
	n, err := p.sessions.find(id)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.terminals[name]; t != nil {
		return n, t, nil
	}
	return nil, nil, refusal("the session has no such terminal")
}

func (p *Proxy) terminalOutput(_ context.Context, r sdk.TerminalOutputRequest) (out sdk.TerminalOutputResponse, err error) {
	_, t, err := p.terminal(r.SessionId, r.TerminalId)
	if err != nil {
		return out, err
	}
	select {
	case <-t.ended:
		status := t.status
		out.ExitStatus = &status
	default:
	}
	out.Output, out.Truncated = t.shown()
	return out, nil
}

func (p *Proxy) waitForTerminal(ctx context.Context, r sdk.WaitForTerminalExitRequest) (out sdk.WaitForTerminalExitResponse, err error) {
	_, t, err := p.terminal(r.SessionId, r.TerminalId)
	if err != nil {
		return out, err
	}
	select {
	case <-t.ended:
	case <-ctx.Done():
		return out, refusal("the wait was cancelled")
	}
	out.ExitCode, out.Signal = t.status.ExitCode, t.status.Signal
	return out, nil
}

func (p *Proxy) killTerminal(_ context.Context, r sdk.KillTerminalRequest) (out sdk.KillTerminalResponse, err error) {
	_, t, err := p.terminal(r.SessionId, r.TerminalId)
	if err != nil {
		return out, err
	}
	t.kill()
	return out, nil
}

func (p *Proxy) releaseTerminal(_ context.Context, r sdk.ReleaseTerminalRequest) (out sdk.ReleaseTerminalResponse, err error) {
	n, t, err := p.terminal(r.SessionId, r.TerminalId)
	if err != nil {
		return out, err
	}
	t.kill()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.terminals, r.TerminalId)
	return out, nil
}

const maxShown = 16 << 10

// terminalText is what the editor shows in the place of a terminal that it does not have.
func (p *Proxy) terminalText(id sdk.SessionId, name string) string {
	_, t, err := p.terminal(id, name)
	if err != nil {
		return "[palyra: a terminal that is not there]"
	}
	text, _ := t.shown()
	if len(text) > maxShown {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxShown:], "")
	}
	return fmt.Sprintf("$ %s\n%s", palyra.Clip(t.title, maxTitle), text)
}

// ownView is the view of a call that the editor does not know of.
func (p *Proxy) ownView(kind sdk.ToolKind) view {
	return view{own: true, call: sdk.ToolCallUpdate{ToolCallId: sdk.ToolCallId("palyra-" + rand.Text()), Kind: &kind}}
}
