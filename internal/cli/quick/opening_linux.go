package quick

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"palyra/internal/cli/tui/opening"
)

// BecomeTUI makes this process the terminal UI. Where arguments are plain and a person is at a terminal the first screen is
// drawn before, since palyra-tui takes several times as long to start as this program.
func BecomeTUI(path string, args []string) (code int, err error) {
	lines := firstScreen(args)
	if lines == nil {
		return Become(path, args)
	}
	// Ctrl-C would end this process with the screen drawn, until palyra-tui hears it. Go's runtime lets that be ignored, and
	// no other signal: those end it like any program that starts.
	signal.Ignore(os.Interrupt)
	opening.Draw(os.Stdout, lines)
	code, err = Become(path, opening.Marked(args))
	opening.Leave(os.Stdout) // it cannot become it
	signal.Reset(os.Interrupt)
	return code, err
}

// firstScreen is what is drawn at once for arguments; nil: nothing, since the terminal UI may have other things to say.
func firstScreen(args []string) []string {
	ok, colourless := opening.Plain(args)
	if !ok || !terminal(0) || !terminal(2) {
		return nil
	}
	size, err := unix.IoctlGetWinsize(1, unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	return opening.Lines(int(size.Col), int(size.Row), !colourless && !Colourless(os.Environ()))
}
