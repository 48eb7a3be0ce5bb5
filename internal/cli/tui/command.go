package tui

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/notify"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// Runner runs another command of palyra, with its results written to out.
type Runner func(ctx context.Context, out io.Writer, args ...string) error

// Options are the flags.
type Options struct {
	Plain, Bell, Desktop, Mouse bool

	Drawn bool // the first screen is on the terminal already
}

// Command is `palyra tui`, with the first screen drawn before or not.
func Command(inv *invocation.Invocation, another func(*invocation.Invocation) Runner, drawn bool) *cobra.Command {
	o := Options{Drawn: drawn}
	cmd := &cobra.Command{
		Use: "tui", Short: "See what waits, decide, undo: one inbox on the whole screen", Args: syntax.Takes(),
		Long: "Shows the questions of all agents and sessions, the effect first, with runs, changes, leases, the\n" +
			"journal and how things stand. An answer is a word that you type, with Enter; no single key, nothing\n" +
			"typed before the question was shown and no pasted text decides anything. Each answer is signed, and\n" +
			"the passphrase of your key is asked for each time.\n\n" +
			"--plain prints lines and reads lines, for screen readers and terminals that cannot be drawn on.",
		Example: "  palyra tui\n  palyra tui --bell --desktop\n  palyra tui --plain\n  palyra tui --remote office",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Run(cmd.Context(), inv, another, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Plain, "plain", false, "print and read lines, and draw nothing")
	f.BoolVar(&o.Bell, "bell", false, "ring the terminal's bell when a question comes")
	f.BoolVar(&o.Desktop, "desktop", false, "show a notice on the desktop when a question comes")
	f.BoolVar(&o.Mouse, "mouse", false, "scroll with the wheel; the terminal then selects text with Shift")
	return cmd
}

// There has arguments be meant for the daemon that the terminal UI speaks to.
func There(inv *invocation.Invocation, args []string) []string {
	if name := inv.RemoteName(); name != "" {
		return append([]string{"--remote", name}, args...)
	}
	return args
}

// Ready reports whether there is a person at a terminal, and a daemon for them.
func Ready(inv *invocation.Invocation) bool {
	if !inv.Interactive() || !terminal.Is(inv.Stdout) {
		return false
	}
	c, err := inv.OperatorAs(nil)
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, done := context.WithTimeout(inv.Context, time.Second)
	defer done()
	return c.Health(ctx) == nil
}

// Run shows the inbox until the person leaves it.
func Run(ctx context.Context, inv *invocation.Invocation, another func(*invocation.Invocation) Runner, o Options) error {
	if !inv.Interactive() {
		return exit.Failedf(palyra.ReasonUnsupported, "this needs a terminal and a person before it").
			WithRemedy("run it from a terminal; 'palyra approvals watch' follows what is asked, 'palyra approvals list --json' is for programs")
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &feed{ctx: ctx, inv: inv, another: another}
	m := &model{
		host: host{load: s.load, page: s.page, fill: s.fill, decide: s.decide, act: s.act},
		now:  inv.Now, style: screen.Style(inv.Colours(inv.Stdout)), mouse: o.Mouse,
	}
	var drawn first
	if !o.Plain {
		drawn.draw(m, inv.Stdout, o.Drawn) // all else is done meanwhile
		defer drawn.leave()
	}
	c, err := inv.Operator()
	if err != nil {
		return err
	}
	defer c.Close()
	s.client, m.own, m.apart = c, inv.Own(), inv.Separation
	if o.Desktop {
		n := notify.New(s, notify.Desktop{})
		s.beside.Go(func() { n.Run(ctx) })
		m.hear = n.Hear
	}
	if o.Bell {
		m.bell = func() { _, _ = io.WriteString(inv.Stdout, "\a") }
	}
	if o.Plain {
		if err := c.Health(ctx); err != nil {
			return err
		}
		return s.plain(m.hear)
	}
	err = s.follow(m, &drawn)
	end()
	s.beside.Wait()
	if s.refused != nil {
		return s.refused
	}
	if errors.Is(err, tea.ErrProgramKilled) && inv.Context.Err() != nil {
		return exit.Interrupted(inv.Context.Err())
	}
	return err
}

// follow has the screen until the person leaves it.
func (s *feed) follow(m *model, drawn *first) error {
	out := s.inv.Stdout
	if drawn.File != nil {
		out = drawn
	}
	s.program = tea.NewProgram(m, tea.WithContext(s.ctx), tea.WithInput(heard(s.inv.Stdin, &m.several)), tea.WithOutput(out),
		tea.WithEnvironment(s.inv.Env), tea.WithoutSignalHandler(), tea.WithFPS(frames))
	s.beside.Go(s.watch)
	s.beside.Go(s.tail)
	_, err := s.program.Run()
	return err
}

// feed is what goes on beside the screen.
type feed struct {
	ctx     context.Context
	inv     *invocation.Invocation
	client  *client.Client
	another func(*invocation.Invocation) Runner
	program *tea.Program
	beside  sync.WaitGroup
	refused error // there was no daemon from the start; set before the program ends
}

// frames is how often a second the screen may be drawn: the first time as soon as that.
const frames = 120

// Write says what parts of the command would print as messages.
func (s *feed) Write(p []byte) (int, error) {
	if text := strings.TrimSpace(strings.TrimPrefix(safe(string(p)), "palyra: ")); text != "" && s.program != nil {
		s.program.Send(noteMsg(strings.ReplaceAll(text, "\n", " ")))
	}
	return len(p), nil
}

// again is how long after a lost connection another one is tried.
const again = 500 * time.Millisecond

// watch follows the questions.
func (s *feed) watch() {
	if err := s.client.Health(s.ctx); err != nil {
		s.refused = err
		s.program.Quit()
		return
	}
	asked, told := true, "" // just now
	s.keep(func() error {
		if !asked {
			if err := s.client.Health(s.ctx); err != nil {
				return err
			}
		}
		asked = false
		s.program.Send(foundMsg{})
		return s.client.WatchApprovals(s.ctx, func(p palyra.Approval) error {
			s.program.Send(approvalMsg{p})
			return nil
		})
	}, func(err error) {
		e := palyra.AsError(err)
		s.program.Send(lostMsg{show.Line(e.Text)})
		if e.Remedy != told && e.Remedy != "" { // not again at each try
			s.program.Send(noteMsg(show.Line(e.Remedy)))
		}
		told = e.Remedy
	})
}

// tail follows the journal.
func (s *feed) tail() {
	from := int64(0)
	s.keep(func() error {
		if from == 0 { // the last ones first
			head, err := s.client.Head(s.ctx)
			if err != nil {
				return err
			}
			from = max(1, head.Size-earlier)
		}
		return s.client.TailJournal(s.ctx, client.TailRequest{Follow: true, From: from}, func(e palyra.Entry) error {
			from = e.Seq + 1
			s.program.Send(entryMsg{e})
			return nil
		})
	}, func(error) {}) // watch says it
}

// earlier is how many entries of the journal from before are shown.
const earlier = 200

// keep does something again whenever it ends, until the session does.
func (s *feed) keep(f func() error, lost func(error)) {
	for s.ctx.Err() == nil {
		err := f()
		if s.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = palyra.Errorf(palyra.Unavailable, client.ReasonConnectionLost, "the daemon ended the stream")
		}
		lost(err)
		select {
		case <-s.ctx.Done():
		case <-time.After(again):
		}
	}
}

// mostRows is how many things a list has.
const mostRows = 500

// load reads the rows of a section.
func (s *feed) load(in section) cmd {
	return func() msg {
		out := rowsMsg{in: in}
		switch in {
		case runs:
			page, err := s.client.Runs(s.ctx, client.RunFilter{Limit: mostRows})
			out.rows, out.err = rowsOfRuns(page.Runs), err
		case changed:
			all, err := s.client.UndoEntries(s.ctx)
			out.rows, out.err = rowsOfChanges(all), err
		case leases:
			page, err := s.client.Leases(s.ctx, client.LeaseFilter{Limit: mostRows})
			out.rows, out.err = rowsOfLeases(page.Leases, s.inv.Now()), err
		case status:
			out.rows = rowsOfStatus()
		}
		return out
	}
}

// printed is where a command prints whose output fills a pane.
type printed struct {
	send    func(string)
	columns int
}

// Write implements io.Writer.
func (p printed) Write(b []byte) (int, error) {
	p.send(string(b))
	return len(b), nil
}

// Columns is how wide the pane is.
func (p printed) Columns() int { return p.columns }

// work is something that is done for the screen, which may need a passphrase.
type work struct {
	*feed
	ctx   context.Context
	stop  context.CancelFunc
	turn  int
	asked atomic.Bool // for a passphrase, and one was typed
}

// begin begins something, until it is stopped.
func (s *feed) begin(turn int) *work {
	ctx, stop := context.WithCancel(s.ctx)
	return &work{feed: s, ctx: ctx, stop: stop, turn: turn}
}

// end ends it. The key of a passphrase took hundreds of megabytes to make, which would stay for minutes.
func (w *work) end() {
	w.stop()
	if w.asked.Load() {
		go debug.FreeOSMemory()
	}
}

// within is an invocation whose messages and passphrases are the screen's.
func (w *work) within() *invocation.Invocation {
	s := w.feed
	return &invocation.Invocation{
		Version: s.inv.Version, Env: s.inv.Env, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: s, Now: s.inv.Now, Home: s.inv.Home,
		Remote: s.inv.Remote, NoColor: true, Context: w.ctx, AskSecret: w.askSecret,
	}
}

// fill runs a command whose output fills a pane.
func (s *feed) fill(turn, columns int, args ...string) (cmd, context.CancelFunc) {
	w := s.begin(turn)
	return func() msg {
		defer w.end()
		out := printed{func(text string) { s.program.Send(textMsg{turn: turn, text: text}) }, columns}
		err := s.another(w.within())(w.ctx, out, args...)
		if w.ctx.Err() != nil {
			err = nil
		}
		return textMsg{turn: turn, end: err, over: true}
	}, w.stop
}

// decide signs and sends an answer. Each has a key of its own, so each asks for its passphrase.
func (s *feed) decide(turn int, r client.DecideRequest) (cmd, context.CancelFunc) {
	w := s.begin(turn)
	return func() msg {
		defer w.end()
		c, err := w.within().Operator()
		if err != nil {
			return doneMsg{turn: turn, err: err}
		}
		defer c.Close()
		p, err := c.Decide(w.ctx, r)
		note := show.Line(string(p.ID)) + ": " + show.Line(question.Ending(p))
		if r.Answer == palyra.AnswerAllow {
			note += " " + question.Reach(r)
		}
		if p.Pending() {
			note = show.Line(string(p.ID)) + ": your answer is on record; others have to answer as well"
		}
		return doneMsg{turn: turn, note: note, err: err, left: w.ctx.Err() != nil}
	}, w.stop
}

// act runs a command that changes something.
func (s *feed) act(turn int, args ...string) (cmd, context.CancelFunc) {
	w := s.begin(turn)
	return func() msg {
		defer w.end()
		var b strings.Builder
		err := s.another(w.within())(w.ctx, &b, args...)
		first, _, _ := strings.Cut(safe(b.String()), "\n")
		return doneMsg{turn: turn, note: first, err: err, left: w.ctx.Err() != nil}
	}, w.stop
}

// askSecret asks for a passphrase on the screen.
func (w *work) askSecret(ctx context.Context, prompt string) (palyra.Secret, error) {
	answer := make(chan []byte, 1)
	w.program.Send(secretMsg{w.turn, strings.TrimSpace(prompt), answer, w.stop})
	select {
	case text := <-answer:
		if text == nil {
			return palyra.Secret{}, exit.Failedf(palyra.ReasonCancelled, "no passphrase was typed; nothing was signed")
		}
		w.asked.Store(true)
		return palyra.NewSecret(text), nil
	case <-ctx.Done():
		w.program.Send(leftMsg{answer})
		select {
		case text := <-answer:
			clear(text)
		default:
		}
		return palyra.Secret{}, ctx.Err()
	}
}
