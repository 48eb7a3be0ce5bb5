package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"palyra/internal/cli/tui/opening"
)

// Sizes of the screen.
const (
	headLines = 2 // lines above the body: the sections, and what the list's cells are
	mostTold  = 4 // lines of what is told: it takes them from the body, and is cut after that
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen, v.WindowTitle = true, "palyra"
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

func (m *model) wide() bool { return m.width >= opening.WideFrom }

// body is how many lines a list or a pane has.
func (m *model) body() int { return max(1, m.height-headLines-len(m.foot())) }

func (m *model) listWidth() int {
	if m.wide() {
		return opening.ListWidth(m.width)
	}
	return m.width
}

func (m *model) paneWidth() int {
	if m.wide() {
		return max(20, m.width-m.listWidth()-3)
	}
	return max(20, m.width)
}

// screen is all lines, each as wide as the terminal at most.
func (m *model) screen() []string {
	if m.width == 0 || m.height == 0 {
		return nil
	}
	out := []string{m.bar()}
	switch {
	case m.help:
		rows, room := m.helpRows()
		out = append(out, m.cut(rows[max(0, min(m.helpTop, len(rows)-room)):], room)...)
	case m.wide():
		left, right := m.listLines(), m.paneLines()
		for i := range left {
			out = append(out, pad(left[i], m.listWidth())+" "+m.style.Calm("│")+" "+right[i])
		}
	case m.pane != nil:
		out = append(out, m.paneLines()...)
	default:
		out = append(out, m.listLines()...)
	}
	out = append(out, m.foot()...)
	for i := range out {
		out[i] = ansi.Truncate(out[i], m.width, "…")
	}
	return out
}

// noDaemon says that there is none, once.
func noDaemon(why string) string {
	if strings.HasPrefix(why, "no daemon") {
		return why
	}
	return "no daemon: " + why
}

// bar is the line with the sections.
func (m *model) bar() string {
	state := "connected"
	if !m.found {
		state = opening.Connecting
	}
	if m.lost != "" {
		state = m.style.Alarm(noDaemon(m.lost))
	}
	var parts []string
	for s := range sections {
		name := fmt.Sprintf("%d %s", s+1, names[s])
		if s == inbox && len(m.pending) > 0 {
			name += fmt.Sprintf(" (%d)", len(m.pending))
		}
		if s == m.at {
			name = m.style.Strong("[" + name + "]")
		}
		parts = append(parts, name)
	}
	line := strings.Join(parts, "  ")
	for _, all := range []string{opening.Name + line, line} {
		if ansi.StringWidth(all)+ansi.StringWidth(state)+2 <= m.width {
			return pad(all, m.width-ansi.StringWidth(state)) + state
		}
	}
	switch {
	case m.lost != "":
		return state
	case ansi.StringWidth(line) <= m.width:
		return line
	}
	return parts[m.at] + m.style.Calm(fmt.Sprintf("  %d of %d, tab: next", m.at+1, sections))
}

// pad fills a line up with blanks.
func pad(s string, width int) string {
	s = ansi.Truncate(s, width, "…")
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// cut is as many lines as there is room for, from the first on.
func (m *model) cut(lines []string, n int) []string {
	out := make([]string, n)
	copy(out, lines)
	return out
}

// listLines is the list: what its cells are, and the rows around the one that one stands on.
func (m *model) listLines() []string {
	l, n := &m.lists[m.at], m.body()
	if l.at < l.top || l.at >= l.top+n {
		l.top = max(0, min(l.at-n/2, len(l.rows)-n))
	}
	out := []string{m.style.Calm("  " + m.cells(columns[m.at].names))}
	switch {
	case l.err != "":
		out = append(out, "  "+m.style.Alarm(l.err))
	case !l.shown:
		out = append(out, "  "+opening.Loading)
	case len(l.rows) == 0:
		out = append(out, "  "+m.emptyText())
	}
	for i := l.top; i < len(l.rows) && i < l.top+n; i++ {
		r, mark := l.rows[i], "  "
		text := m.cells(r.cells)
		switch {
		case i == l.at:
			mark, text = "> ", m.style.Strong(text)
		case r.alarm:
			text = m.style.Alarm(text)
		}
		out = append(out, mark+text)
	}
	return m.cut(out, n+1)
}

// emptyText says why a list is empty.
func (m *model) emptyText() string {
	if m.filter != "" {
		return "nothing has \"" + safe(m.filter) + "\" in it; Esc shows all"
	}
	return [sections]string{
		inbox: "nothing waits for you", runs: "no runs yet: palyra run, palyra agent run",
		changed: "no call has changed anything that can be undone", leases: "nothing stands allowed",
		journal: "nothing since this began", status: "",
	}[m.at]
}

// cells lays the cells of a row out.
func (m *model) cells(cells []string) string {
	widths, width := columns[m.at].widths, m.listWidth()-2
	var b strings.Builder
	for i := range opening.Fitting(widths, width) {
		b.WriteString(pad(cells[i], widths[i]) + " ")
	}
	return ansi.Truncate(b.String()+cells[len(cells)-1], width, "…")
}

// paneLines is the pane, with one line of what it is.
func (m *model) paneLines() []string {
	n := m.body()
	if m.pane == nil {
		return m.cut([]string{"", m.style.Calm(opening.Empty)}, n+1)
	}
	if p := m.pane; p.asked != nil && !p.full && !p.diff && p.room != n {
		m.ask() // the lines below it are more or less than they were
	}
	lines := m.laid(m.pane.lines, m.paneWidth())
	top := max(0, min(m.pane.top, len(lines)-n))
	if m.pane.in == runs && m.pane.top == 0 {
		top = max(0, len(lines)-n) // the end of what goes on
	}
	head := names[m.pane.in] + " " + safe(m.pane.of)
	if len(lines) > n {
		head += fmt.Sprintf("  lines %d to %d of %d", top+1, min(top+n, len(lines)), len(lines))
	}
	switch p := m.pane; {
	case p.asked == nil:
	case p.diff:
		head += "  d: back"
	case p.full:
		head += "  f: back"
	}
	return m.cut(append([]string{m.style.Calm(head)}, lines[top:min(top+n, len(lines))]...), n+1)
}

// laid breaks lines that are too long.
func (m *model) laid(lines []string, width int) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		if len(l) <= width {
			out = append(out, l)
			continue
		}
		out = append(out, strings.Split(ansi.Wrap(l, width, " "), "\n")...)
	}
	return out
}

// foot is the last lines: what the person is told, or types, and the keys.
func (m *model) foot() []string {
	switch {
	case m.field != nil && m.note != "":
		return append([]string{m.fieldLine()}, m.told(true)...)
	case m.field != nil:
		return []string{m.fieldLine(), m.fieldKeys()}
	case m.search:
		found := fmt.Sprintf("  (%d of %d)", len(m.lists[m.at].rows), len(m.lists[m.at].whole))
		return []string{m.style.Strong("Only what has:") + " " + safe(m.filter) + "_" + m.style.Calm(found), m.keys()}
	case m.help:
		return append(m.told(m.warn), m.helpKeys())
	case m.note == "":
		return []string{m.style.Calm(m.part()), m.keys()}
	}
	return append(m.told(m.warn), m.keys())
}

// helpRows is the help, and how many lines of it there is room for.
func (m *model) helpRows() (rows []string, room int) {
	return wrapped(helpLines, m.width), max(1, m.height-headLines-len(m.told(m.warn))-1) + 1
}

// helpKeys names the keys of the help.
func (m *model) helpKeys() string {
	rows, room := m.helpRows()
	if len(rows) <= room {
		return m.style.Calm("any key: back")
	}
	return m.style.Calm(fmt.Sprintf("to line %d of %d%s↑ ↓: more%sq: back", min(m.helpTop+room, len(rows)), len(rows), keyGap, keyGap))
}

// told is what was said last, with its remedy.
func (m *model) told(alarm bool) []string {
	lines := strings.Split(ansi.Wrap(m.note, max(1, m.width), " "), "\n")
	lines = lines[:min(len(lines), mostTold, max(1, m.height-headLines-2))]
	for i := range lines {
		if alarm {
			lines[i] = m.style.Alarm(lines[i])
		}
	}
	return lines
}

// fieldLine is the field, with as much of its prompt as there is room for.
func (m *model) fieldLine() string {
	if line := m.field.shown(m.style, false); ansi.StringWidth(line) < m.width {
		return line
	}
	return m.field.shown(m.style, true)
}

// fieldKeys names the keys of the field, or what it asks for where that did not fit before it.
func (m *model) fieldKeys() string {
	if line := m.field.shown(m.style, false); ansi.StringWidth(line) >= m.width {
		return m.style.Calm(m.field.prompt)
	}
	if m.field.busy != "" {
		return m.style.Calm("Esc: leave it")
	}
	return m.style.Calm("Enter: done   Esc: leave it; nothing is decided by it")
}

// wrapped has the words of each line of help that is too long below each other: beside the key, or below it.
func wrapped(lines []string, width int) (out []string) {
	for _, l := range lines {
		key, text := "", l
		if len(l) > keyColumns && (strings.HasPrefix(l, " ") || strings.Contains(l[:keyColumns], "  ")) {
			text = string([]rune(l)[keyColumns:])
			key = l[:len(l)-len(text)]
		}
		indent := ansi.StringWidth(key)
		if narrow := width < 60; narrow && key != "" {
			if indent = 2; strings.TrimSpace(key) != "" {
				out = append(out, strings.TrimSpace(key))
			}
			key = "  "
		}
		for i, row := range strings.Split(ansi.Wrap(text, max(1, width-indent), " "), "\n") {
			if i > 0 {
				key = strings.Repeat(" ", indent)
			}
			out = append(out, key+strings.TrimLeft(row, " "))
		}
	}
	return out
}

// keyColumns is how wide the column of the keys is in the help.
const keyColumns = 19

// keys names the keys that do something here, those that matter least only where there is room.
func (m *model) keys() string {
	words := []string{}
	if m.pane == nil || m.wide() {
		words = append(words, opening.Keys[0])
	} else {
		words = append(words, "Esc: back")
	}
	switch {
	case m.at == inbox && m.pane != nil:
		words = append(words, "a: answer", "f: all of the plan", "d: diff")
	case m.at == changed:
		words = append(words, "u: undo", "r: redo", "d: diff")
	case m.at == leases:
		words = append(words, "x: revoke")
	case m.at == runs:
		words = append(words, "x: cancel")
	}
	words = append(words, opening.Keys[1:]...)
	if i := slices.Index(words, opening.Keys[1]); m.filter != "" && (m.pane == nil || m.wide()) {
		words[i] = "Esc: all"
	}
	for _, less := range []string{opening.Keys[1], "d: diff", "f: all of the plan", "r: redo", opening.Keys[2]} {
		if ansi.StringWidth(strings.Join(words, keyGap)) > m.width {
			words = slices.DeleteFunc(words, func(w string) bool { return w == less })
		}
	}
	return m.style.Calm(strings.Join(words, keyGap))
}

// keyGap stands between the keys of the last line.
const keyGap = "   "

var helpLines = strings.Split(`
1 to 6, Tab        another section
↑ ↓ PgUp PgDn      move; Enter: show; Esc: back
Home, End          the first and the last; of the journal the newest and oldest
a                  answer the question that is shown: you type the word, and Enter
                   Tab then goes through: once, for the session, for a time
                   deny takes a reason after it, which the agent is told
f, d               all of a plan; the difference that it makes
u, r               undo what a call changed, or do it again
x                  revoke a lease, cancel a run
/                  only what has a word in it; Esc: all
q                  quit; what waits goes on waiting

Nothing is decided by a single key, by Enter alone, by what was typed before a
question was on the screen, or by pasted text. Each answer is signed with your
key, and its passphrase is asked for each time.`, "\n")
