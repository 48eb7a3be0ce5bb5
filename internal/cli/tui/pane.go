package tui

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"palyra/internal/cli/question"
	"palyra/internal/show"
)

// show opens the pane for the row that one stands on.
func (m *model) show() cmd {
	r := m.selected()
	if r == nil {
		return nil
	}
	m.close()
	m.turn++
	m.pane = &pane{of: r.id, in: m.at, turn: m.turn, since: m.now()}
	return m.fill(r)
}

// fill begins to fill the pane.
func (m *model) fill(r *row) cmd {
	p := m.pane
	if p.in == inbox {
		for i := range m.pending {
			if string(m.pending[i].ID) == p.of {
				one := m.pending[i]
				p.asked = &one
			}
		}
		return m.ask()
	}
	if p.in == journal {
		p.lines = m.entryText(p.of)
		return nil
	}
	args := r.open
	if p.in == changed && p.diff {
		args = append(args[:len(args):len(args)], "--diff")
	}
	c, stop := m.host.fill(p.turn, m.paneWidth(), args...)
	p.stop = stop
	return c
}

// entryText is an entry of the journal, whole.
func (m *model) entryText(seq string) []string {
	for _, e := range m.entries {
		if strconv.FormatInt(e.Seq, 10) == seq {
			b, err := json.MarshalIndent(e, "", "  ")
			if err != nil {
				return []string{show.Line(err.Error())}
			}
			return strings.Split(show.Block(string(b)), "\n")
		}
	}
	return []string{"it is not kept here any more: palyra journal tail"}
}

// ask lays the question of the pane out, or its diff, which the daemon has where it holds changes.
func (m *model) ask() cmd {
	p := m.pane
	if p.asked == nil {
		return nil
	}
	p.apart = m.apart()
	return m.lay(p)
}

// lay lays the question out again.
func (m *model) lay(p *pane) cmd {
	var b bytes.Buffer
	p.room = m.body()
	v := question.View{
		W: &b, Approval: *p.asked, Separation: p.apart, Now: m.now(), Style: m.style, Width: m.paneWidth(), Short: !p.full, Own: m.own,
		Pane: p.room,
	}
	if !p.diff {
		v.Print()
	} else if v.Difference() {
		m.stop()
		m.turn++
		p.turn, p.lines, p.top = m.turn, []string{""}, 0
		var c cmd
		c, p.stop = m.host.fill(p.turn, m.paneWidth(), "changes", string(p.asked.Call), "--diff")
		return c
	}
	p.lines = strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	p.top = min(p.top, max(0, len(p.lines)-1))
	return nil
}

// again fills the pane anew: it has another size, or other things are wanted of it.
func (m *model) again() cmd {
	p := m.pane
	if p == nil {
		return m.follow(false)
	}
	if p.in == inbox {
		return m.ask()
	}
	r := m.selected()
	if r == nil || r.id != p.of {
		return nil
	}
	full, diff := p.full, p.diff
	c := m.show()
	if m.pane.full, m.pane.diff = full, diff; diff {
		m.stop()
		c = m.fill(m.selected())
	}
	return c
}

// follow has the pane beside a list show the row that one stands on. A question that is being answered stays.
func (m *model) follow(byHand bool) cmd {
	r := m.selected()
	switch {
	case !m.wide() || m.field != nil:
		return nil
	case m.pane != nil && m.pane.asked != nil && !m.pane.asked.Pending() && !byHand:
		return nil // what became of it stays, until a key says otherwise: another question takes no question's place
	case r == nil && m.pane != nil && (m.pane.asked == nil || m.pane.asked.Pending()):
		m.close()
		return nil
	case r == nil || m.pane != nil && m.pane.of == r.id && m.pane.in == m.at:
		return nil
	}
	return m.show()
}

// close takes the pane away.
func (m *model) close() {
	m.stop()
	m.pane = nil
}

func (m *model) stop() {
	if m.pane != nil && m.pane.stop != nil {
		m.pane.stop()
	}
}

// scroll moves the text of the pane, or the list where there is none.
func (m *model) scroll(n int) {
	if rows, room := m.helpRows(); m.help {
		m.helpTop = max(0, min(m.helpTop+n, len(rows)-room))
		return
	}
	if m.pane == nil {
		l := &m.lists[m.at]
		l.at = max(0, min(l.at+n, len(l.rows)-1))
		return
	}
	m.pane.top = max(0, min(m.pane.top+n, len(m.laid(m.pane.lines, m.paneWidth()))-m.body()))
}

// safe takes whatever steers a terminal out of text that the commands have escaped already.
func safe(s string) string { return strings.Map(printableLine, s) }

func printableLine(r rune) rune {
	if r == '\n' {
		return r
	}
	return printable(r)
}

func printable(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case r == '\r':
		return -1
	case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar:
		return '·'
	}
	return r
}
