package tui

import (
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/client"
)

// The journal that is shown is a piece of it without gaps, newest first. Entries that come are added to it where it reaches
// to the newest one; at its other end pages are read as one moves there.
const (
	mostEntries = 2000 // entries of the piece, and of those that came last
	pageEntries = 200  // entries that are read at once
)

// way is where a page of the journal leads to.
type way int

const (
	older  way = iota // before the piece
	newer             // after it
	oldest            // in place of it: the first entries that there are
)

// pageMsg is a page of the journal, oldest first.
type pageMsg struct {
	way     way
	entries []palyra.Entry
	err     error
}

// page reads a page of the journal.
func (s *feed) page(to way, from, n int64) cmd {
	return func() msg {
		out := pageMsg{way: to}
		out.err = s.client.TailJournal(s.ctx, client.TailRequest{From: from, Limit: n}, func(e palyra.Entry) error {
			out.entries = append(out.entries, e)
			return nil
		})
		return out
	}
}

// came notes a new entry of the journal.
func (m *model) came(e palyra.Entry) {
	if live := m.live(); live {
		m.entries = atMost(slices.Insert(m.entries, 0, e))
	}
	m.latest = atMost(slices.Insert(m.latest, 0, e))
}

func atMost(all []palyra.Entry) []palyra.Entry { return all[:min(len(all), mostEntries)] }

// live reports whether the piece that is shown reaches to the newest entry.
func (m *model) live() bool { return len(m.entries) == 0 || m.entries[0].Seq == m.latest[0].Seq }

// along moves in the journal by steps of which its list has not enough: it reads on.
func (m *model) along(steps int) cmd {
	l := &m.lists[journal]
	switch {
	case len(m.entries) == 0 || m.reading != 0:
		return nil
	case steps <= -far:
		m.entries = slices.Clone(m.latest)
		m.relist()
		return nil
	case steps >= far && !m.first():
		return m.read(steps, oldest, 1, pageEntries)
	case steps > 0 && l.at+steps >= len(l.rows) && !m.first():
		before := m.entries[len(m.entries)-1].Seq
		from := max(1, before-pageEntries)
		return m.read(steps, older, from, before-from)
	case steps < 0 && l.at+steps < 0 && !m.live():
		return m.read(steps, newer, m.entries[0].Seq+1, pageEntries)
	}
	return nil
}

// first reports whether the piece that is shown begins with the first entry.
func (m *model) first() bool { return m.entries[len(m.entries)-1].Seq <= 1 }

func (m *model) read(steps int, to way, from, n int64) cmd {
	m.reading = steps
	m.say("reading the journal …", false)
	return m.host.page(to, from, n)
}

// paged has a page of the journal shown.
func (m *model) paged(in pageMsg) cmd {
	step, l := m.reading, &m.lists[journal]
	if m.reading = 0; m.at != journal {
		return nil
	}
	m.say("", false)
	if in.err != nil {
		m.fail(in.err)
		return nil
	}
	if len(in.entries) == 0 {
		return nil
	}
	slices.Reverse(in.entries)
	switch in.way {
	case older:
		all := slices.Concat(m.entries, in.entries)
		m.entries = all[max(0, len(all)-mostEntries):]
	case newer:
		m.entries = atMost(slices.Concat(in.entries, m.entries))
		m.join()
	case oldest:
		m.entries = in.entries
		m.join()
	}
	m.relist()
	l.at = max(0, min(l.at+step, len(l.rows)-1))
	return m.follow(true)
}

// join puts what came last before the piece that is shown, where it reaches there.
func (m *model) join() {
	i := slices.IndexFunc(m.latest, func(e palyra.Entry) bool { return e.Seq <= m.entries[0].Seq })
	switch {
	case i > 0:
		m.entries = atMost(slices.Concat(m.latest[:i], m.entries))
	case i < 0 && m.latest[len(m.latest)-1].Seq == m.entries[0].Seq+1:
		m.entries = atMost(slices.Concat(m.latest, m.entries))
	}
}

// part says which part of a list is shown, where it is not all.
func (m *model) part() string {
	var parts []string
	if l := &m.lists[m.at]; m.filter != "" {
		parts = append(parts, fmt.Sprintf("filter: %s (%d of %d)", safe(m.filter), len(l.rows), len(l.whole)))
	}
	if m.at == journal && len(m.entries) > 0 && (!m.first() || !m.live()) {
		parts = append(parts, fmt.Sprintf("entries %d to %d of %d", m.entries[len(m.entries)-1].Seq, m.entries[0].Seq, m.latest[0].Seq))
	}
	return strings.Join(parts, "   ")
}
