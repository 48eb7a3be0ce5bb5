package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"palyra"
	"palyra/internal/cli/exit"
)

// checking is a table at which a question is answered and a passphrase was typed for it. It was not checked yet.
func checking(t *testing.T) (*table, chan []byte) {
	t.Helper()
	b := newTable(t, 80, 24)
	b.send(approvalMsg{question1("Q1", "run git push")}, approvalMsg{question1("Q2", "another one")})
	b.press("enter", "a")
	b.wait()
	b.word("allow")
	if len(b.decided) != 1 || !strings.Contains(b.page(), "signing …") {
		t.Fatalf("%+v\n%s", b.decided, b.page())
	}
	return b, b.passphrase()
}

// passphrase has a passphrase asked for, and types one.
func (b *table) passphrase() chan []byte {
	b.Helper()
	answer := make(chan []byte, 1)
	b.send(secretMsg{turn: b.turn, prompt: "Passphrase:", answer: answer, leave: func() { b.left++ }})
	b.wait()
	b.word("open sesame")
	if got := <-answer; string(got) != "open sesame" {
		b.Fatalf("%q", got)
	}
	return answer
}

// While a passphrase is checked the screen says so, and no key does anything but Esc and Ctrl-C.
func TestKeysWhileAPassphraseIsChecked(t *testing.T) {
	b, answer := checking(t)
	b.ask()
	before, since := b.page(), b.clock
	if !strings.Contains(before, "Passphrase: checking …") || !strings.Contains(before, "Esc: leave it") {
		t.Fatalf("nothing says that it is checked:\n%s", before)
	}
	for r := rune(0x20); r < 0x7f; r++ {
		b.press(string(r))
	}
	b.press("enter", "tab", "down", "backspace")
	b.word("allow")
	b.clock = since
	b.send(tea.PasteMsg{Content: "deny\n"}, armMsg{b.field, b.field.turn}, lostMsg{"gone"}, foundMsg{})
	b.send(approvalMsg{question1("Q1", "run git push")}, approvalMsg{question1("Q2", "another one")})
	if b.page() != before || len(b.decided) != 1 || len(b.acted) > 0 || len(answer) > 0 || b.left > 0 {
		t.Errorf("%+v %q, left %d times, %d answers\n%s", b.decided, b.acted, b.left, len(answer), b.page())
	}
	b.send(doneMsg{turn: b.turn - 1}) // of something else
	if b.field == nil {
		t.Error("another one's end is taken for its own")
	}
	b.send(doneMsg{turn: b.turn, note: "Q1: allow by user:alice"})
	if page := b.page(); b.field != nil || strings.Contains(page, "checking") || !strings.Contains(page, "allow by user:alice") {
		t.Errorf("it has ended:\n%s", page)
	}
}

// The answer comes back as news before its own sender knows: that is nobody who was faster.
func TestTheOwnAnswerIsNobodyElses(t *testing.T) {
	b, _ := checking(t)
	b.send(approvalMsg{answered(question1("Q1", "run git push"), palyra.AnswerAllow)})
	if page := b.page(); strings.Contains(page, "faster") || !strings.Contains(page, "checking") {
		t.Error(page)
	}
}

// A wrong passphrase is asked for again in the same place, and nothing was given up.
func TestAWrongPassphraseIsAskedForAgain(t *testing.T) {
	b, _ := checking(t)
	b.send(noteMsg("the passphrase is wrong; 2 of 3 tries are left"))
	if page := b.page(); !strings.Contains(page, "checking …") || !strings.Contains(page, "2 of 3 tries") {
		t.Error(page)
	}
	b.passphrase()
	if page := b.page(); b.left > 0 || strings.Contains(page, "2 of 3") || !strings.Contains(page, "checking …") {
		t.Errorf("left %d times\n%s", b.left, page)
	}
}

// Esc and Ctrl-C leave what is checked, and end it. What it did all the same is said; that it was ended is not.
func TestACheckIsLeft(t *testing.T) {
	for _, key := range []string{"esc", "ctrl+c"} {
		b, answer := checking(t)
		if b.press(key); b.left != 1 || b.field != nil || len(answer) > 0 || strings.Contains(b.page(), "checking") {
			t.Errorf("%s: left %d times\n%s", key, b.left, b.page())
		}
	}
	b, _ := checking(t)
	b.press("esc")
	const note = "left: unless it was sent already, nothing is done"
	b.send(doneMsg{turn: b.turn, err: exit.Failedf(palyra.ReasonCancelled, "context canceled"), left: true})
	if page := b.page(); !strings.Contains(page, note) || strings.Contains(page, "canceled") {
		t.Error(page)
	}
	b.send(doneMsg{turn: b.turn, note: "Q1: allow by user:alice", left: true})
	if page := b.page(); strings.Contains(page, note) || !strings.Contains(page, "allow by user:alice") {
		t.Error(page)
	}
}

// The same for a command that needs a passphrase, and for one that fills a pane.
func TestCommandsThatNeedAPassphrase(t *testing.T) {
	b := newTable(t, 80, 24)
	b.press("3")
	b.send(rowsMsg{in: changed, rows: []row{{id: "X", cells: []string{"a", "b", "c", "d"}}}})
	b.clock = b.clock.Add(time.Minute)
	b.press("u")
	b.wait()
	b.word("undo")
	if !strings.Contains(b.page(), "undo …") {
		t.Error(b.page())
	}
	b.passphrase()
	if b.press("q", "1", "u"); b.model.at != changed || len(b.acted) != 1 {
		t.Errorf("%q", b.acted)
	}
	b.send(doneMsg{turn: b.turn, note: "undone"})
	b.press("enter")
	b.passphrase()
	if b.press("q", "1"); b.model.at != changed || !strings.Contains(b.page(), "checking …") {
		t.Error(b.page())
	}
	if b.send(textMsg{turn: b.turn, text: "what changed\n", over: true}); b.field != nil || !strings.Contains(b.page(), "what changed") {
		t.Error(b.page())
	}
}
