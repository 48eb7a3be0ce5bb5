// Package opening is the first screen of the terminal UI: the inbox, before the daemon was heard. The small program draws it
// and becomes palyra-tui, which goes on with it, so it links next to nothing.
//
// Promises: it is the frame that the terminal UI itself draws then, letter by letter; nothing in it is known of the daemon,
// and it says so. Where the terminal UI cannot be started the screen from before is back. In the few milliseconds until it
// hears signals a Ctrl-C does nothing and can be pressed again, and another signal ends it with the screen drawn. A palyra-tui
// of another version that does not take the line goes back to the screen from before and says so.
package opening

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The words and sizes of the first screen, which the terminal UI has as well.
const (
	Name       = "palyra  "
	Connecting = "connecting …"                  // there was no answer yet
	Loading    = "…"                             // nothing is known of a list
	Empty      = "Enter shows what you stand on" // a pane of nothing

	WideFrom = 110 // columns from which on a list and its pane stand side by side
)

const (
	manyFrom  = 140 // columns from which on the list beside a pane has all of its cells
	manyList  = 70  // columns of the list then
	fewList   = 52  // and below that
	allFrom   = 70  // columns from which on a row has all of its cells
	leastLast = 30  // columns that its last cell has else, before another one stands
)

// ListWidth is how wide the list is beside a pane.
func ListWidth(columns int) int {
	if columns >= manyFrom {
		return manyList
	}
	return fewList
}

// Fitting is how many cells of these widths stand before the last one of a row: the first always does.
func Fitting(widths []int, columns int) int {
	if columns >= allFrom {
		return len(widths)
	}
	for i, n := range widths {
		if columns -= n + 1; i > 0 && columns < leastLast {
			return i
		}
	}
	return len(widths)
}

// Sections are the names of the lists, the inbox first.
var Sections = [...]string{"Inbox", "Runs", "Changes", "Leases", "Journal", "Status"}

// The cells of a question: their names, and how wide all but the last are.
var (
	Cells  = []string{"RISK", "LEFT", "ASKED BY", "WANTS"}
	Widths = []int{8, 7, 16}
)

// Keys are those that do something at the start.
var Keys = []string{"Enter: show", "/: find", "?: help", "q: quit"}

// The smallest terminal that it fits. On smaller ones it is left to the terminal UI, which knows how to cut.
const (
	leastColumns = 42
	leastRows    = 6
)

// look is whether Palyra's own words are coloured.
type look bool

func (l look) words(code, text string) string {
	if !l {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (l look) calm(text string) string { return l.words("2", text) }

// Lines are those of the first screen; nil: it does not fit.
func Lines(columns, rows int, coloured bool) []string {
	if columns < leastColumns || rows < leastRows {
		return nil
	}
	const foot = 2 // what is told, which is nothing, and the keys
	l := look(coloured)
	out := make([]string, rows)
	out[0] = l.bar(columns)
	out[1] = l.calm(heads(columns))
	out[2] = "  " + Loading
	if columns >= WideFrom {
		l.split(out[1:rows-foot], heads(columns), ListWidth(columns))
	}
	out[rows-1] = l.calm(strings.Join(Keys, "   "))
	return out
}

// bar is the line with the sections, or with the one that is shown where there is no room.
func (l look) bar(columns int) string {
	here := "1 " + Sections[0]
	line, wide := l.words("1", "["+here+"]"), len("[]")+len(here)
	for i, name := range Sections[1:] {
		part := "  " + strconv.Itoa(i+2) + " " + name
		line, wide = line+part, wide+len(part)
	}
	for _, name := range []string{Name, ""} {
		if left := columns - len(name) - wide - width(Connecting); left >= 2 {
			return name + line + strings.Repeat(" ", left) + Connecting
		}
	}
	if wide <= columns {
		return line
	}
	return l.words("1", "["+here+"]") + l.calm("  1 of "+strconv.Itoa(len(Sections))+", tab: next")
}

// heads are the names of the cells that there is room for.
func heads(columns int) string {
	if columns >= WideFrom {
		columns = ListWidth(columns)
	}
	text := "  "
	for i, n := range Widths[:Fitting(Widths, columns-2)] {
		text += Cells[i] + strings.Repeat(" ", n-len(Cells[i])) + " "
	}
	return text + Cells[len(Cells)-1]
}

// split puts the pane beside the list, whose first line is head.
func (l look) split(lines []string, head string, list int) {
	for i := range lines {
		seen := width(lines[i])
		if i == 0 {
			seen = width(head)
		}
		lines[i] += strings.Repeat(" ", list-seen) + " " + l.calm("│") + " "
		if i == 1 {
			lines[i] += l.calm(Empty)
		}
	}
}

// width is how many columns text takes: all of it here is as wide as it has letters.
func width(text string) int { return utf8.RuneCountInString(text) }

// How the screen from before is left, and gone back to.
const (
	enter = "\x1b[?1049h\x1b[H\x1b[2J"
	leave = "\x1b[?1049l"
)

// Draw draws lines on a screen of their own.
func Draw(w io.Writer, lines []string) { _, _ = io.WriteString(w, enter+strings.Join(lines, "\r\n")) }

// Leave goes back to the screen from before.
func Leave(w io.Writer) { _, _ = io.WriteString(w, leave) }

// noColor is the flag for a screen without colours.
const noColor = "--no-color"

// Plain reports whether arguments show the terminal UI whatever else is the case, and whether colours are not wanted.
// Of lines that only the flags of commands tell it says no.
func Plain(args []string) (ok, colourless bool) {
	for i := 0; i < len(args); i++ {
		switch w := args[i]; {
		case w == "--home" && i+1 < len(args):
			i++
		case strings.HasPrefix(w, "--home="):
		case w == noColor:
			colourless = true
		case w == "tui" && !ok:
			ok = true
		case ok && (w == "--bell" || w == "--desktop" || w == "--mouse"):
		default:
			return false, false
		}
	}
	return ok, ok && colourless
}

// drawn is what follows the arguments where the screen was drawn. It names the process, which stays the same one: nobody
// types it.
const drawn = "--drawn="

// Marked are arguments for a program that goes on with the screen.
func Marked(args []string) []string {
	return append(args[:len(args):len(args)], drawn+strconv.Itoa(os.Getpid()))
}

// Unmarked are a program's name and arguments as they were typed, and whether this process drew the screen before.
func Unmarked(args []string) (rest []string, was bool) {
	if n := len(args) - 1; n > 0 && args[n] == drawn+strconv.Itoa(os.Getpid()) {
		return args[:n], true
	}
	return args, false
}
