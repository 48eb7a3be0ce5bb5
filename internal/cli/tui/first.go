package tui

import (
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/charmbracelet/x/ansi"

	"palyra/internal/cli/screen"
	"palyra/internal/cli/tui/opening"
)

// first is the terminal, with the first screen drawn on it at once. Bubbletea draws when its clock ticks, and that is as
// long after the start as the start itself takes.
type first struct {
	*os.File
	alone atomic.Bool // bubbletea has not entered the screen that we entered
}

// draw draws the first screen, where out is a terminal and it was not drawn already.
func (f *first) draw(m *model, out io.Writer, was bool) {
	var ok bool
	if f.File, ok = out.(*os.File); !ok {
		return
	}
	f.alone.Store(was)
	m.width, m.height = screen.TerminalSize(f.File)
	if was || m.width == 0 || m.height == 0 {
		return
	}
	f.alone.Store(true)
	opening.Draw(f.File, m.screen())
}

// Write leaves out that the screen is entered, the first time: it was.
func (f *first) Write(p []byte) (int, error) {
	if before, after, found := strings.Cut(string(p), ansi.SetModeAltScreenSaveCursor); found && f.alone.CompareAndSwap(true, false) {
		if _, err := f.File.WriteString(before + after); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return f.File.Write(p)
}

// leave goes back to the screen from before, where bubbletea does not.
func (f *first) leave() {
	if f.alone.Load() {
		opening.Leave(f.File)
	}
}
