package tui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
)

// key handles a key: its text, if it types one, and its name.
func (m *model) key(text, name string) cmd {
	switch {
	case name == "ctrl+c":
		return m.quit()
	case m.field != nil:
		return m.typed(text, name)
	case m.search:
		return m.searching(text, name)
	case m.help:
		m.helped(name)
		return nil
	}
	m.note = ""
	if c, ok := m.walk(name); ok {
		return c
	}
	return m.command(name)
}

// quit gives up a secret that is asked for, and ends.
func (m *model) quit() cmd {
	if m.field != nil {
		m.drop("")
	}
	m.close()
	return tea.Quit
}

// typed is a key for the field.
func (m *model) typed(text, name string) cmd {
	f := m.field
	switch {
	case name == "esc" && f.busy != "":
		m.drop("left: unless it was sent already, nothing is done")
		return nil
	case name == "esc":
		m.drop("left: nothing is decided")
		return nil
	case f.busy != "":
		return nil // a key is about what the person sees next, and nobody knows yet what that is
	}
	m.note = "" // it was about the keys before
	entered, note := f.key(text, name, m.now(), m.several.Load())
	if note != "" {
		m.say(note, true)
	}
	if !entered {
		return m.arming()
	}
	if m.note = ""; f.secret {
		text := f.text
		f.text, f.busy = nil, "checking …" // the text is the asker's now
		return f.done(m, text)
	}
	m.field = nil
	return f.done(m, f.text)
}

// pasted is text that came at once.
func (m *model) pasted(text string) cmd {
	switch {
	case m.field != nil && m.field.busy != "":
	case m.field != nil:
		m.say(m.field.paste(text, m.several.Load()), true)
		return m.arming()
	case m.search:
		m.filter += strings.Map(printable, text)
		return m.sift()
	}
	return nil
}

// drop takes the field away.
func (m *model) drop(note string) {
	f := m.field
	m.field = nil
	switch {
	case f.busy != "":
		f.leave()
	case f.secret:
		f.done(m, nil)
	}
	f.wipe()
	if note != "" {
		m.say(note, false)
	}
}

// open puts a field on the screen, where keys count once none came for a moment.
func (m *model) open(f *field) cmd {
	f.reads = m.several.Load()
	if m.field = f; !f.secret || !m.warn { // before a passphrase stands what was wrong with the last one
		m.note = ""
	}
	return m.arming()
}

func (m *model) arming() cmd {
	f := m.field
	if f == nil || f.armed || f.busy != "" {
		return nil
	}
	turn := f.turn
	return tea.Tick(still, func(time.Time) msg { return armMsg{f, turn} })
}

func (m *model) arm(in armMsg) cmd {
	if m.field == in.f && in.f.turn == in.turn {
		if in.f.armed = true; !in.f.secret && !in.f.pasted {
			m.note = ""
		}
	}
	return nil
}

// searching is a key of the filter.
func (m *model) searching(text, name string) cmd {
	switch {
	case name == "enter":
		m.search = false
	case name == "esc":
		m.search, m.filter = false, ""
	case name == "backspace" && m.filter != "":
		r := []rune(m.filter)
		m.filter = string(r[:len(r)-1])
	case len(m.filter) < 100:
		m.filter += strings.Map(printable, text)
	}
	return m.sift()
}

// sift has the list be what the filter leaves of it.
func (m *model) sift() cmd {
	l := &m.lists[m.at]
	m.place(l, l.whole)
	return m.follow(true)
}

// far is more steps than anything has.
const far = 1 << 30

// steps is how far a key moves.
func (m *model) steps(name string) (n int, ok bool) {
	n, ok = map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.body(), "pgdown": m.body(), "space": m.body(), "home": -far, "g": -far,
		"end": far, "G": far, "shift+g": far,
	}[name]
	return n, ok
}

// walk moves.
func (m *model) walk(name string) (cmd, bool) {
	if n, ok := m.steps(name); ok {
		if m.pane != nil && !m.wide() || m.pane != nil && (name == "pgup" || name == "pgdown" || name == "space") {
			m.scroll(n)
			return nil, true
		}
		if m.at == journal {
			if c := m.along(n); c != nil {
				return c, true
			}
		}
		l := &m.lists[m.at]
		l.at = max(0, min(l.at+n, len(l.rows)-1))
		return m.follow(true), true
	}
	switch name {
	case "tab", "right":
		return m.turnTo((m.at + 1) % sections), true
	case "shift+tab", "left":
		return m.turnTo((m.at + sections - 1) % sections), true
	}
	if len(name) == 1 && name[0] >= '1' && name[0] < '1'+byte(sections) {
		return m.turnTo(section(name[0] - '1')), true
	}
	return nil, false
}

// turnTo shows a section.
func (m *model) turnTo(s section) cmd {
	m.close()
	m.at, m.filter, m.search = s, "", false
	if s == inbox || s == journal {
		m.relist()
		return m.follow(true)
	}
	return m.host.load(s)
}

// command handles the keys that do something.
func (m *model) command(name string) cmd {
	switch name {
	case "q":
		return m.quit()
	case "?":
		m.help, m.helpTop = true, 0
	case "/":
		m.search, m.filter = true, ""
		return m.sift()
	case "esc":
		return m.back()
	case "enter":
		return m.show()
	case "f", "d":
		if m.pane != nil {
			if p := m.pane; name == "f" {
				p.full, p.diff = !p.full, p.diff && p.in != inbox
			} else {
				p.full, p.diff = p.full && p.in != inbox, !p.diff
			}
			m.pane.top = 0
			return m.again()
		}
	case "a":
		return m.answer()
	case "u", "r":
		return m.revert(map[string]string{"u": "undo", "r": "redo"}[name])
	case "x":
		return m.end()
	}
	return nil
}

// back closes the pane that covers the list, and then shows all of it again.
func (m *model) back() cmd {
	if m.filter == "" || m.pane != nil && !m.wide() {
		m.close()
		return nil
	}
	m.filter = ""
	return m.sift()
}

// helped scrolls the help, or leaves it.
func (m *model) helped(name string) {
	n, ok := m.steps(name)
	rows, room := m.helpRows()
	if m.help = ok && len(rows) > room; m.help {
		m.helpTop = max(0, min(m.helpTop+n, len(rows)-room))
	}
}

// selected is the row that one stands on.
func (m *model) selected() *row {
	l := &m.lists[m.at]
	if l.at >= len(l.rows) {
		return nil
	}
	return &l.rows[l.at]
}

// answer asks for the word that settles the question of the pane.
func (m *model) answer() cmd {
	if m.at != inbox {
		return nil
	}
	if m.pane == nil {
		return tea.Batch(m.show(), func() msg { return noteMsg("read it, then press a") })
	}
	p := m.pane.asked
	switch {
	case p == nil || !p.Pending():
		m.say("nothing waits for an answer here", true)
		return nil
	case m.lost != "":
		m.say("there is no daemon to answer to", true)
		return nil
	case m.now().Sub(m.pane.since) < read:
		m.say("this question has just come onto the screen: read it, then press a", true)
		return nil
	}
	words := append(append([]string{"allow"}, question.Offered(*p)...), "deny")
	f := &field{
		prompt: "Type " + choices(words) + " for “" + screen.SafeMiddle(p.Prompt.Summary, mostAbout) + "”:",
		words:  words, rest: true,
	}
	if !p.Need.Fresh { // else there is nothing to choose
		f.spans = []string{"once", "session", "30m", "8h"}
		f.own = len(words) > 2
	}
	asked := *p
	f.done = func(m *model, text []byte) cmd { return m.decided(asked, string(text), f.chosen()) }
	return m.open(f)
}

// decided turns a typed word into the answer to the question that was shown.
func (m *model) decided(p palyra.Approval, typed, span string) cmd {
	if m.pane == nil || m.pane.asked == nil || m.pane.asked.ID != p.ID || m.pane.asked.PlanDigest != p.PlanDigest {
		m.say("the question on the screen is another one: nothing was decided", true)
		return nil
	}
	word, reason, _ := strings.Cut(strings.TrimSpace(typed), " ")
	r := client.DecideRequest{
		ID: p.ID, Answer: palyra.Answer(word), Digest: p.PlanDigest, Method: palyra.MethodTUI, Reason: strings.TrimSpace(reason),
	}
	switch scope, ttl := spanOf(span); {
	case word == string(palyra.AnswerAllow):
		r.Scope, r.TTL = scope, ttl
	case word != string(palyra.AnswerDeny) && scope == palyra.ScopeSession:
		m.say(screen.SafeLine(word)+" holds for a time, not for the session: nothing was decided; choose 30m or 8h", true)
		return nil
	case word != string(palyra.AnswerDeny) && scope == palyra.ScopeTimeboxed:
		r.Scope, r.TTL = scope, ttl
	}
	r, err := question.Widely(r)
	if err == nil {
		err = question.CheckOffered(p, r)
	}
	if err != nil {
		m.fail(err)
		return nil
	}
	m.turn++
	c, leave := m.host.decide(m.turn, question.Named(p, r))
	m.field = &field{busy: "signing …", of: m.turn, leave: leave}
	return c
}

// revert asks for the word that undoes or redoes a call.
func (m *model) revert(word string) cmd {
	r := m.selected()
	if m.at != changed || r == nil {
		return nil
	}
	return m.openFor(r, word, word, r.id)
}

// end asks for the word that ends a run or a lease.
func (m *model) end() cmd {
	r := m.selected()
	if r == nil {
		return nil
	}
	words := map[section][]string{runs: {"runs", "cancel"}, leases: {"leases", "revoke"}}[m.at]
	if words == nil {
		return nil
	}
	return m.openFor(r, words[1], words[0], words[1], r.id)
}

// openFor asks for the word after which a command is run about a row.
func (m *model) openFor(r *row, word string, args ...string) cmd {
	if m.now().Sub(m.lists[m.at].moved) < read {
		m.say("the list has just changed: look, and press it again", true)
		return nil
	}
	about := ansi.Truncate(r.cells[len(r.cells)-1], mostAbout, "…")
	return m.open(&field{
		prompt: "Type " + word + " to " + word + " “" + about + "”:", words: []string{word},
		done: func(m *model, _ []byte) cmd {
			m.turn++
			c, leave := m.host.act(m.turn, args...)
			m.field = &field{busy: word + " …", of: m.turn, leave: leave}
			return c
		},
	})
}

// mostAbout is how much of what a word is about stands before it.
const mostAbout = 40

// secret asks for a passphrase.
func (m *model) secret(in secretMsg) cmd {
	if m.field != nil && m.field.busy == "" {
		m.drop("")
	}
	return m.open(&field{
		prompt: in.prompt, secret: true, answer: in.answer, of: in.turn, leave: in.leave,
		done: func(_ *model, text []byte) cmd {
			in.answer <- text
			return nil
		},
	})
}

// spanOf is the scope that Tab went to.
func spanOf(span string) (palyra.Scope, time.Duration) {
	switch d, err := time.ParseDuration(span); {
	case err == nil:
		return palyra.ScopeTimeboxed, d
	case span == "session":
		return palyra.ScopeSession, 0
	}
	return palyra.ScopeOnce, 0
}
