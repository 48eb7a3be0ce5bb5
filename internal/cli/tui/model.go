package tui

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/tui/opening"
	"palyra/internal/show"
)

type (
	cmd = tea.Cmd
	msg = tea.Msg
)

// section is one of the lists.
type section int

const (
	inbox section = iota
	runs
	changed
	leases
	journal
	status
	sections
)

var names = [sections]string(opening.Sections)

// row is one thing of a list.
type row struct {
	id    string
	cells []string // safe; the last one takes the room that is left
	alarm bool
	open  []string // the command whose output is about it
}

// list is what a section has, and where in it one stands.
type list struct {
	rows  []row // what the filter leaves of the whole
	whole []row
	at    int
	top   int
	err   string
	shown bool      // it was loaded
	moved time.Time // another row came under the hand by itself
}

// pane shows what a row is about.
type pane struct {
	of    string // the row
	in    section
	lines []string
	top   int
	turn  int // of what fills it
	stop  context.CancelFunc
	since time.Time // it is on the screen
	full  bool
	diff  bool
	room  int // lines that a question was laid out for

	asked *palyra.Approval  // what it asks, as it is shown
	apart palyra.Separation // of the key, as it was when that was asked for
}

// host is what a model does outside of itself. Each returns at once, with what is to be done.
type host struct {
	load   func(s section) cmd
	page   func(to way, from, n int64) cmd // of the journal
	fill   func(turn, columns int, args ...string) (cmd, context.CancelFunc)
	decide func(turn int, r client.DecideRequest) (cmd, context.CancelFunc)
	act    func(turn int, args ...string) (cmd, context.CancelFunc) // a command that changes something
}

// model is the state of the screen. It belongs to one goroutine, which is bubbletea's.
type model struct {
	host   host
	now    func() time.Time
	style  screen.Style
	own    string
	apart  func() palyra.Separation // as the key is now: it may be protected meanwhile
	mouse  bool
	bell   func()
	hear   func(palyra.Approval)
	height int
	width  int

	at      section
	lists   [sections]list
	pending []palyra.Approval // oldest first
	entries []palyra.Entry    // of the journal as it is shown, newest first
	latest  []palyra.Entry    // that came last, newest first
	reading int               // how far one moves when a page of the journal is there; 0: none is on its way
	filter  string
	search  bool // the filter is being typed
	pane    *pane
	field   *field
	help    bool
	helpTop int
	note    string
	warn    bool
	found   bool   // a daemon answered
	lost    string // why there is none any more; "": there is one
	turn    int
	several atomic.Int64 // reads that brought several letters at once
}

// Messages.
type (
	approvalMsg struct{ palyra.Approval }
	foundMsg    struct{}               // a daemon is there; what is pending follows
	lostMsg     struct{ why string }   // it is not any more
	entryMsg    struct{ palyra.Entry } // of the journal
	clockMsg    time.Time              // a second has passed
	armMsg      struct {
		f    *field
		turn int
	}
	rowsMsg struct {
		in   section
		rows []row
		err  error
	}
	textMsg struct { // what fills a pane
		turn int
		text string
		end  error
		over bool
	}
	doneMsg struct { // an action has ended
		turn int
		note string
		err  error
		left bool // nobody waited for it any more
	}
	secretMsg struct {
		turn   int // of what needs it
		prompt string
		answer chan<- []byte
		leave  context.CancelFunc // ends what needs it
	}
	leftMsg struct{ answer chan<- []byte } // nobody waits for a passphrase any more
	noteMsg string
)

// Init implements tea.Model.
func (m *model) Init() cmd { return tea.Batch(tick(), m.host.load(status)) }

func tick() cmd { return tea.Tick(time.Second, func(t time.Time) msg { return clockMsg(t) }) }

// Update implements tea.Model.
func (m *model) Update(in msg) (tea.Model, cmd) {
	switch in := in.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = in.Width, in.Height
		return m, m.again()
	case tea.KeyPressMsg:
		return m, m.key(in.Key().Text, in.Keystroke())
	case tea.PasteMsg:
		return m, m.pasted(in.Content)
	case tea.MouseWheelMsg:
		m.scroll(map[bool]int{true: -3, false: 3}[in.Button == tea.MouseWheelUp])
	case clockMsg:
		m.passed()
		return m, tick()
	default:
		return m, m.news(in)
	}
	return m, nil
}

// news handles what did not come from the person.
func (m *model) news(in msg) cmd {
	switch in := in.(type) {
	case foundMsg:
		m.found, m.lost, m.pending = true, "", nil
		m.relist()
	case lostMsg:
		m.lose(in.why)
	case approvalMsg:
		return m.approval(in.Approval)
	case entryMsg:
		return m.entry(in.Entry)
	case pageMsg:
		return m.paged(in)
	case rowsMsg:
		m.loaded(in)
		return m.follow(false)
	case textMsg:
		m.text(in)
	case armMsg:
		return m.arm(in)
	case doneMsg:
		return m.done(in)
	case secretMsg:
		return m.secret(in)
	case leftMsg:
		if m.field != nil && m.field.answer == in.answer {
			m.drop("")
		}
	case noteMsg:
		m.say(string(in), true)
	}
	return nil
}

// passed has the time that is left be as it is now.
func (m *model) passed() {
	if m.at == inbox {
		m.relist()
	}
	if p := m.pane; p != nil && p.asked != nil && p.asked.Pending() && !p.diff {
		m.lay(p)
	}
}

// say shows a line to the person. It is safe already.
func (m *model) say(text string, warn bool) { m.note, m.warn = text, warn }

// told reports whether a command has said already why it failed: what it ends with is a code alone.
func told(err error) bool {
	e, ok := exit.As(err)
	return ok && e.Text == "" && e.Err == nil
}

func (m *model) fail(err error) {
	if told(err) {
		return
	}
	e := palyra.AsError(err)
	text := show.Line(e.Text)
	if e.Remedy != "" {
		text += " (" + show.Line(e.Remedy) + ")"
	}
	m.say(text, true)
}

// done shows what became of an action. Of one that was left only what it did all the same.
func (m *model) done(in doneMsg) cmd {
	m.over(in.turn)
	switch {
	case in.err == nil:
		m.say(in.note, false)
	case !in.left:
		m.say(in.note, false)
		m.fail(in.err)
	}
	return m.reload()
}

// over takes the field away that stood while something was done.
func (m *model) over(turn int) {
	if m.field != nil && m.field.busy != "" && m.field.of == turn {
		m.field = nil
	}
}

// lose notes that the daemon is gone. What was typed meanwhile would be about nothing.
func (m *model) lose(why string) {
	m.lost = why
	if m.field != nil && m.field.takesWord() {
		m.drop("the daemon went away: nothing was decided")
	}
}

// approval is news of a question.
func (m *model) approval(p palyra.Approval) cmd {
	if m.hear != nil {
		m.hear(p)
	}
	i := slices.IndexFunc(m.pending, func(o palyra.Approval) bool { return o.ID == p.ID })
	switch {
	case p.Pending() && i >= 0:
		m.pending[i] = p
	case p.Pending():
		at, _ := slices.BinarySearchFunc(m.pending, p, func(a, b palyra.Approval) int { return a.RequestedAt.Compare(b.RequestedAt) })
		m.pending = slices.Insert(m.pending, at, p)
		if m.bell != nil {
			m.bell()
		}
	case i >= 0:
		m.pending = slices.Delete(m.pending, i, i+1)
	}
	m.relist()
	if m.pane == nil || m.pane.asked == nil || m.pane.asked.ID != p.ID {
		return m.follow(false)
	}
	if p.PlanDigest != m.pane.asked.PlanDigest || !p.Pending() {
		if m.field != nil && m.field.takesWord() {
			m.drop("somebody was faster: " + show.Line(question.Ending(p)) + decider(p))
		}
	}
	m.pane.asked = &p
	if m.pane.diff && p.Pending() {
		return nil // it is the same
	}
	m.stop()
	m.pane.diff = false
	return m.ask()
}

// decider says who settled an approval.
func decider(p palyra.Approval) string {
	if p.Decision.By == "" {
		return ""
	}
	return " by " + show.Line(string(p.Decision.By))
}

// aged says which lists are old after entries whose kinds begin so.
var aged = map[string]section{
	"run.": runs, "grant.": leases, "call.finished": changed, "call.checked": changed, "call.reverted": changed,
}

// entry is a new entry of the journal; it says which lists are old.
func (m *model) entry(e palyra.Entry) cmd {
	m.came(e)
	if m.at == journal {
		m.relist()
	}
	for prefix, s := range aged {
		if strings.HasPrefix(e.Kind, prefix) && m.lists[s].shown && m.at == s {
			return m.host.load(s)
		}
	}
	return nil
}

func (m *model) loaded(in rowsMsg) {
	l := &m.lists[in.in]
	l.err, l.shown = "", true
	if in.err != nil {
		l.err = show.Line(palyra.AsError(in.err).Text)
		return
	}
	m.place(l, in.rows)
}

// place gives a list new rows, and stays where one stood.
func (m *model) place(l *list, rows []row) {
	was := ""
	if l.at < len(l.rows) {
		was = l.rows[l.at].id
	}
	if l.whole = rows; m.filter != "" {
		rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
			return !strings.Contains(strings.ToLower(strings.Join(r.cells, " ")), strings.ToLower(m.filter))
		})
	}
	l.rows = rows
	if i := slices.IndexFunc(rows, func(r row) bool { return r.id == was }); i >= 0 {
		l.at = i
	}
	l.at = max(0, min(l.at, len(rows)-1))
	if was != "" && (l.at >= len(rows) || rows[l.at].id != was) {
		l.moved = m.now()
	}
}

// relist makes the rows of the lists that come by themselves.
func (m *model) relist() {
	m.lists[inbox].shown, m.lists[journal].shown = true, true
	m.place(&m.lists[inbox], rowsOfInbox(m.pending, m.now()))
	if m.at == journal {
		m.place(&m.lists[journal], rowsOfJournal(m.entries))
	}
}

func (m *model) reload() cmd {
	if m.at == inbox || m.at == journal {
		m.relist()
		return m.follow(false)
	}
	return tea.Batch(m.host.load(m.at), m.again())
}

// text is more of what fills the pane.
func (m *model) text(in textMsg) {
	if in.over {
		m.over(in.turn)
	}
	if m.pane == nil || m.pane.turn != in.turn {
		return // of a pane that is closed
	}
	if in.text != "" {
		add := strings.Split(safe(in.text), "\n")
		if n := len(m.pane.lines); n > 0 { // goes on with the last line
			m.pane.lines[n-1] += add[0]
			add = add[1:]
		}
		m.pane.lines = append(m.pane.lines, add...)
		if over := len(m.pane.lines) - mostLines; over > 0 {
			m.pane.lines = slices.Delete(m.pane.lines, 0, over)
		}
	}
	if in.end != nil && !told(in.end) {
		m.pane.lines = append(m.pane.lines, safe(show.Line(palyra.AsError(in.end).Text)))
	}
}

// mostLines is how much of a pane is kept: of a run that prints without end the last of it.
const mostLines = 20_000
