package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"palyra"
	"palyra/client"
)

// entries are those of the journal from one to another, in this order.
func entries(from, to int64) (all []palyra.Entry) {
	for n := from; n <= to; n++ {
		all = append(all, palyra.Entry{Seq: n, Time: "2026-11-19T12:00:00Z", Kind: "call.finished"})
	}
	return all
}

// reads answers what was asked of the journal, which has so many entries, and fails a test where it was not asked once.
func (b *table) reads(size int64) {
	b.Helper()
	if len(b.paged) != 1 {
		b.Fatalf("%d pages are asked for:\n%s", len(b.paged), b.page())
	}
	p := b.paged[0]
	b.paged = nil
	if p[2] > pageEntries {
		b.Errorf("%d entries at once", p[2])
	}
	b.send(pageMsg{way: way(p[0]), entries: entries(p[1], min(size, p[1]+p[2]-1))})
}

// on fails a test where one does not stand on an entry, or the piece that is shown has a gap or is not the one.
func (b *table) on(entry, first, last int64) {
	b.Helper()
	if r := b.selected(); r == nil || r.id != fmt.Sprint(entry) {
		b.Errorf("stands on %v, not on %d", r, entry)
	}
	if n := len(b.model.entries); n == 0 || b.model.entries[0].Seq != last || b.model.entries[n-1].Seq != first || int64(n) != last-first+1 {
		b.Errorf("%d entries, %d to %d, not %d to %d", n, b.model.entries[n-1].Seq, b.model.entries[0].Seq, first, last)
	}
}

// pressed is a key that is pressed at a list, by its code.
func (b *table) pressed(codes ...rune) {
	for _, c := range codes {
		b.send(tea.KeyPressMsg(tea.Key{Code: c}))
	}
}

// The journal is walked to its real ends, page by page; entries that come meanwhile stand where they belong.
func TestTheEndsOfTheJournal(t *testing.T) {
	b := newTable(t, 80, 24)
	for _, e := range entries(9_801, 10_000) { // as many as are read at the start
		b.send(entryMsg{e})
	}
	b.press("5")
	b.on(10_000, 9_801, 10_000)
	b.pressed(tea.KeyEnd)
	if !strings.Contains(b.page(), "reading the journal …") {
		t.Error(b.page())
	}
	b.pressed(tea.KeyEnd, tea.KeyDown) // it is on its way already
	b.reads(10_000)
	b.on(1, 1, 200)
	if !strings.Contains(b.page(), "entries 1 to 200 of 10000") || !strings.Contains(b.page(), "> 1 ") {
		t.Error(b.page())
	}
	b.send(entryMsg{entries(10_001, 10_001)[0]})
	b.on(1, 1, 200)
	b.pressed(tea.KeyUp)
	b.on(2, 1, 200)
	for b.selected().id != "200" {
		b.pressed(tea.KeyUp)
	}
	b.pressed(tea.KeyUp)
	b.reads(10_001)
	b.on(201, 1, 400)
	b.pressed(tea.KeyHome)
	b.on(10_001, 9_801, 10_001)
	b.send(entryMsg{entries(10_002, 10_002)[0]})
	b.on(10_001, 9_801, 10_002)
	for b.selected().id != "9801" {
		b.pressed(tea.KeyDown)
	}
	b.pressed(tea.KeyPgDown)
	b.reads(10_002)
	b.on(9_801-int64(b.body()), 9_601, 10_002)
	b.send(pageMsg{way: older, err: palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "it is ending")})
	if !strings.Contains(b.page(), "it is ending") {
		t.Error(b.page())
	}
}

// Of a long walk the last entries are kept, without a gap, and the way back reaches what came last.
func TestLongWalksInTheJournal(t *testing.T) {
	const size, came = 2 * mostEntries, 300
	b := newTable(t, 80, 24)
	for _, e := range entries(size-199, size) {
		b.send(entryMsg{e})
	}
	b.press("5")
	to := func(key rune) {
		for len(b.paged) == 0 {
			b.pressed(key)
		}
		if b.reads(size + came); len(b.model.entries) > mostEntries {
			t.Fatalf("%d entries", len(b.model.entries))
		}
	}
	for !b.first() {
		to(tea.KeyPgDown)
	}
	for _, e := range entries(size+1, size+came) {
		b.send(entryMsg{e})
	}
	if n, all := len(b.model.entries), b.model.entries; n != mostEntries || all[n-1].Seq != 1 || all[0].Seq != mostEntries {
		t.Errorf("%d entries, %d to %d", n, all[n-1].Seq, all[0].Seq)
	}
	for !b.live() {
		to(tea.KeyPgUp)
	}
	if b.model.entries[0].Seq != size+came {
		t.Errorf("%d", b.model.entries[0].Seq)
	}
	b.pressed(tea.KeyEnd)
	b.press("1")
	b.send(pageMsg{way: oldest, entries: entries(1, 200)}) // nobody looks at it any more
	if strings.Contains(b.page(), "call.finished") || b.reading != 0 {
		t.Error(b.page())
	}
}

// A filter says that it is there, of how many it leaves which, and how it goes; with it all rows are back.
func TestAFilterIsSeen(t *testing.T) {
	for _, width := range []int{80, 160} {
		b := newTable(t, width, 24)
		b.press("3")
		b.send(rowsMsg{in: changed, rows: rowsOfChanges([]client.UndoEntry{
			{Call: "C1", Summary: "run make"}, {Call: "C2", Summary: "write xyz"}, {Call: "C3", Summary: "write abc"},
		})})
		b.press("/", "x", "y")
		if page := b.page(); !strings.Contains(page, "xy_  (1 of 3)") {
			t.Error(page)
		}
		b.send(tea.PasteMsg{Content: "z"})
		b.press("enter")
		page := b.page()
		if !strings.Contains(page, "filter: xyz (1 of 3)") || !strings.Contains(page, "Esc: all") || strings.Contains(page, "abc") {
			t.Error(page)
		}
		b.press("enter", "esc") // a pane over the list is left before the filter
		if page := b.page(); strings.Contains(page, "filter: xyz (1 of 3)") != (width < 110) {
			t.Error(page)
		}
		b.press("esc")
		if page := b.page(); strings.Contains(page, "filter") || !strings.Contains(page, "run make") || !strings.Contains(page, "write abc") {
			t.Errorf("not all is back:\n%s", page)
		}
	}
}

// The time that is left goes on in the list and in the question, and nothing else moves.
func TestTheTimeThatIsLeftGoesOn(t *testing.T) {
	for _, width := range []int{80, 160} {
		b := newTable(t, width, 12)
		for i := range 30 {
			b.send(approvalMsg{question1(fmt.Sprintf("Q%02d", i), fmt.Sprintf("call %d", i))})
		}
		for range 20 {
			b.pressed(tea.KeyDown)
		}
		b.clock = noon.Add(time.Minute)
		if b.send(clockMsg{}); !strings.Contains(b.page(), "> HIGH     3m0s") {
			t.Error(b.page())
		}
		before, top := b.lists[inbox].at, b.lists[inbox].top
		if b.clock = noon.Add(2 * time.Minute); width < 110 {
			b.press("enter")
		}
		b.clock = noon.Add(2 * time.Minute)
		b.send(clockMsg{})
		if page := b.page(); !strings.Contains(page, "expires in 2m0s") || width > 110 && !strings.Contains(page, "> HIGH     2m0s") {
			t.Error(page)
		}
		b.pane.full = true
		b.ask()
		b.pressed(tea.KeyPgDown)
		at := b.pane.top
		b.clock = b.clock.Add(time.Second)
		b.send(clockMsg{})
		if text := strings.Join(b.pane.lines, "\n"); !strings.Contains(text, "1m59s") || at == 0 || b.pane.top != at {
			t.Errorf("from line %d to %d\n%s", at, b.pane.top, text)
		}
		if l := &b.lists[inbox]; l.at != before || l.top != top || !l.moved.IsZero() {
			t.Errorf("the list moved: %d %d", l.at, l.top)
		}
	}
}

// All of the help can be read where it does not fit.
func TestHelpScrolls(t *testing.T) {
	for _, size := range [][2]int{{80, 12}, {40, 16}, {42, 6}, {160, 5}} {
		b := newTable(t, size[0], size[1])
		b.press("?")
		seen := b.page()
		if len(b.screen()) != size[1] || !strings.Contains(seen, "more") {
			t.Errorf("%d:\n%s", size, seen)
		}
		for range 60 {
			b.press("down")
			seen += b.page()
		}
		for _, line := range wrapped(helpLines, size[0]) {
			if !strings.Contains(seen, line) {
				t.Errorf("%d: %q cannot be read", size, line)
			}
		}
		if b.pressed(tea.KeyHome); !b.help || !strings.Contains(b.page(), "1 to 6, Tab") {
			t.Errorf("%d:\n%s", size, b.page())
		}
		if b.press("q"); b.help {
			t.Error("it cannot be left")
		}
	}
}
