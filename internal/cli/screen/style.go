package screen

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Width is how many columns w has; 0 if it is no terminal, nor a part of one that says so.
func Width(w io.Writer) int {
	if p, ok := w.(interface{ Columns() int }); ok {
		return p.Columns()
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _ := TerminalSize(f)
	return columns
}

// TerminalSize is how many columns and rows a terminal has; 0 if it is none.
func TerminalSize(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// Style colours Palyra's own words; outside text is never styled, so that a colour always means that Palyra speaks.
type Style bool

func (s Style) wrap(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Strong is bold text.
func (s Style) Strong(text string) string { return s.wrap("1", text) }

// Alarm is text in the colour of a warning.
func (s Style) Alarm(text string) string { return s.wrap("1;31", text) }

// Calm is dimmed text.
func (s Style) Calm(text string) string { return s.wrap("2", text) }

// Joined puts words of any type on one line.
func Joined[S ~string](list []S) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}
