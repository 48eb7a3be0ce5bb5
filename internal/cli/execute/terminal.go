package execute

import (
	"context"
	"os"
	"sync"

	"golang.org/x/term"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// rawTerminal is the person's terminal while a command has it: every key goes to the command, and
// none is shown or obeyed here. The zero value has not been taken over; a nil one never is.
type rawTerminal struct {
	file *os.File

	mu    sync.Mutex
	state *term.State // its former state; nil while it is the person's
	over  bool        // given back for good
}

// isRaw reports whether the terminal is the command's now.
func (t *rawTerminal) isRaw() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state != nil
}

// onTerminal prepares for a command with a terminal of its own.
func (x *execution) onTerminal() error {
	f, ok := x.inv.Stdin.(*os.File)
	if !ok {
		return exit.Usagef("-t needs a terminal on stdin")
	}
	x.raw = &rawTerminal{file: f}
	x.size = x.raw.size()
	x.input = proposal.Input{Live: true, Rest: f}
	return nil
}

// size is the size of the terminal, or a common one if it does not tell.
func (t *rawTerminal) size() *proposal.Size {
	cols, rows, err := term.GetSize(int(t.file.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return &proposal.Size{Rows: 24, Cols: 80}
	}
	return &proposal.Size{Rows: min(rows, maxSide), Cols: min(cols, maxSide)}
}

// maxSide is the most rows or columns that a command's terminal has.
const maxSide = 1000

// take gives the terminal to the command, unless it was given back already.
func (t *rawTerminal) take() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.state != nil {
		return nil
	}
	state, err := term.MakeRaw(int(t.file.Fd()))
	t.state = state
	return err
}

// restore gives the terminal back to the person, for good.
func (t *rawTerminal) restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.state != nil {
		_ = term.Restore(int(t.file.Fd()), t.state)
		t.state = nil
	}
}

// takeOver gives the person's terminal to the command that runs now: all its own questions are
// answered, and later ones come after this.
func (x *execution) takeOver(ctx context.Context) {
	if x.raw == nil || x.taken {
		return
	}
	x.taken = true
	if x.asker.forgetTyped() {
		terminal.Drain()
	}
	if err := x.raw.take(); err != nil {
		x.tell("the terminal stays as it is: %s", show.Line(err.Error()))
	}
	x.unveil()
	x.pending.Go(func() { x.feed(ctx) })
}

// resized returns a function that sends the command the new size of its terminal.
func (x *execution) resized(ctx context.Context, id palyra.CallID) (pass func()) {
	if x.raw == nil || id == "" {
		return nil
	}
	size := x.raw.size()
	return func() {
		ctx, done := context.WithTimeout(ctx, sendPatience)
		defer done()
		_ = x.client.SendInput(ctx, id, palyra.Feed{Rows: size.Rows, Cols: size.Cols}) // the next resize corrects it
	}
}
