package tui

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
)

var update = flag.Bool("update", false, "write the goldens anew")

var noon = time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)

// table is a model, and what it asked to be done. Nothing is drawn.
type table struct {
	*testing.T
	*model
	clock   time.Time
	decided []client.DecideRequest
	acted   [][]string
	filled  [][]string
	paged   [][3]int64 // the way, from where, how many
	left    int        // how often something was given up
}

func newTable(t *testing.T, width, height int) *table {
	b := &table{T: t, clock: noon}
	b.model = &model{own: "palyra", apart: func() palyra.Separation { return "" }, now: func() time.Time { return b.clock }, host: host{
		load: func(section) cmd { return nil },
		page: func(to way, from, n int64) cmd { b.paged = append(b.paged, [3]int64{int64(to), from, n}); return nil },
		decide: func(_ int, r client.DecideRequest) (cmd, context.CancelFunc) {
			b.decided = append(b.decided, r)
			return nil, func() { b.left++ }
		},
		act: func(_ int, args ...string) (cmd, context.CancelFunc) {
			b.acted = append(b.acted, args)
			return nil, func() { b.left++ }
		},
		fill: func(_, _ int, args ...string) (cmd, context.CancelFunc) {
			b.filled = append(b.filled, args)
			return nil, func() {}
		},
	}}
	b.send(tea.WindowSizeMsg{Width: width, Height: height}, foundMsg{})
	return b
}

// send hands messages over, one after the other.
func (b *table) send(all ...msg) {
	for _, in := range all {
		b.Update(in)
	}
}

// press presses a key.
func (b *table) press(names ...string) {
	for _, name := range names {
		if b.field == nil {
			b.clock = b.clock.Add(2 * read) // people read before they press
		}
		k := tea.Key{Text: name, Code: []rune(name)[0]}
		switch name {
		case "enter":
			k = tea.Key{Code: tea.KeyEnter}
		case "esc":
			k = tea.Key{Code: tea.KeyEscape}
		case "tab":
			k = tea.Key{Code: tea.KeyTab}
		case "down":
			k = tea.Key{Code: tea.KeyDown}
		case "backspace":
			k = tea.Key{Code: tea.KeyBackspace}
		case "ctrl+c":
			k = tea.Key{Code: 'c', Mod: tea.ModCtrl}
		}
		b.send(tea.KeyPressMsg(k))
	}
}

// wait lets the moment pass after which keys count.
func (b *table) wait() {
	b.Helper()
	if b.field == nil {
		b.Fatal("there is no field")
	}
	b.send(armMsg{b.field, b.field.turn})
}

// at presses keys, each some time after the one before.
func (b *table) at(gap time.Duration, names ...string) {
	for _, name := range names {
		b.clock = b.clock.Add(gap)
		b.press(name)
	}
}

// word types a word as people do, and Enter.
func (b *table) word(text string) {
	for _, r := range text {
		b.clock = b.clock.Add(80 * time.Millisecond)
		b.press(string(r))
	}
	b.clock = b.clock.Add(80 * time.Millisecond)
	b.press("enter")
}

// page is the screen as text.
func (b *table) page() string { return ansi.Strip(strings.Join(b.screen(), "\n")) }

func question1(id, summary string) palyra.Approval {
	return palyra.Approval{
		ID: palyra.ApprovalID(id), Principal: "agent:local", Owner: "user:alice",
		RequestedAt: noon.Add(-time.Minute), ExpiresAt: noon.Add(4 * time.Minute),
		PlanDigest: palyra.SumBytes([]byte(id)),
		Plan: palyra.Plan{
			Tool: "palyra.process.run", Tier: palyra.TierC, Argv: []string{"git", "push"}, Workspace: palyra.WorkspaceRef{Path: "/w"},
			Executable: palyra.Executable{Path: "/usr/bin/git", Digest: palyra.SumBytes(nil)},
		},
		Prompt: palyra.Prompt{
			Summary: summary, Risk: palyra.Risk{Level: palyra.RiskHigh, Factors: []string{"destructive"}}, Explanation: "a push leaves the machine",
		},
	}
}

func answered(p palyra.Approval, a palyra.Answer) palyra.Approval {
	p.Decision.Answer, p.Decision.By = a, "user:bob"
	return p
}

// A word that is typed into the field of a question answers it, by the digest that was shown.
func TestATypedWordAnswers(t *testing.T) {
	for typed, want := range map[string]client.DecideRequest{
		"allow":            {Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce},
		"deny":             {Answer: palyra.AnswerDeny},
		"deny not  today ": {Answer: palyra.AnswerDeny, Reason: "not  today"},
	} {
		b := newTable(t, 80, 24)
		b.send(approvalMsg{question1("Q1", "run git push")})
		b.press("enter", "a")
		b.wait()
		b.word(typed)
		want.ID, want.Digest, want.Method = "Q1", palyra.SumBytes([]byte("Q1")), palyra.MethodTUI
		if len(b.decided) != 1 || b.decided[0] != want {
			t.Errorf("%q: %+v, want %+v", typed, b.decided, want)
		}
	}
	b := newTable(t, 80, 24)
	b.send(approvalMsg{question1("Q1", "run git push")})
	b.press("enter", "a")
	b.wait()
	b.press("tab", "tab") // once, session, 30m
	b.word("allow")
	if len(b.decided) != 1 || b.decided[0].Scope != palyra.ScopeTimeboxed || b.decided[0].TTL != 30*time.Minute {
		t.Errorf("%+v", b.decided)
	}
}

// An answer never reaches further than the field says: a word with a time of its own takes the one that is chosen, and is
// refused where it cannot.
func TestAChosenTimeIsKept(t *testing.T) {
	for tabs, want := range []struct {
		shown string
		ttl   time.Duration
	}{{"(tab: allow once)", 8 * time.Hour}, {"(tab: allow session)", 0}, {"(tab: 30m)", 30 * time.Minute}, {"(tab: 8h)", 8 * time.Hour}} {
		b := newTable(t, 100, 24)
		q := question1("Q1", "fetch a page")
		q.Prompt.Options = []palyra.Widening{{Name: palyra.WidenHost, Label: "fetching pages of example.com"}}
		b.send(approvalMsg{q})
		b.press("enter", "a")
		b.wait()
		if b.press(slices.Repeat([]string{"tab"}, tabs)...); !strings.Contains(b.page(), want.shown) {
			t.Errorf("%s is not there:\n%s", want.shown, b.page())
		}
		b.word("allow-host")
		switch {
		case want.ttl == 0:
			if len(b.decided) > 0 || !strings.Contains(b.page(), "nothing was decided") {
				t.Errorf("%+v\n%s", b.decided, b.page())
			}
		case len(b.decided) != 1 || b.decided[0].Scope != palyra.ScopeTimeboxed || b.decided[0].TTL != want.ttl:
			t.Errorf("%s: %+v", want.shown, b.decided)
		}
	}
	b := newTable(t, 100, 24)
	q := question1("Q1", "asked each time")
	q.Need.Fresh = true
	b.send(approvalMsg{q})
	b.press("enter", "a")
	b.wait()
	if b.press("tab"); strings.Contains(b.page(), "(tab:") {
		t.Errorf("there is nothing to choose:\n%s", b.page())
	}
	if b.word("allow"); len(b.decided) != 1 || b.decided[0].Scope != palyra.ScopeOnce {
		t.Errorf("%+v", b.decided)
	}
}

// No single key, no default, nothing typed ahead and nothing pasted decides.
func TestNothingElseAnswers(t *testing.T) {
	ask := func(b *table) {
		b.send(approvalMsg{question1("Q1", "run git push")})
		b.press("enter", "a")
	}
	for name, do := range map[string]func(*table){
		"single keys": func(b *table) {
			b.send(approvalMsg{question1("Q1", "run git push")})
			for r := rune(0x20); r < 0x7f; r++ {
				if b.press(string(r)); b.field != nil {
					b.press("esc")
				}
				b.search = false
			}
		},
		"typed ahead":     func(b *table) { ask(b); b.word("allow") },
		"ahead, and then": func(b *table) { ask(b); b.press("a", "l", "l"); b.wait(); b.word("ow") },
		"Enter alone":     func(b *table) { ask(b); b.wait(); b.press("enter", "enter") },
		"pasted":          func(b *table) { ask(b); b.wait(); b.send(tea.PasteMsg{Content: "allow"}); b.press("enter") },
		"pasted line":     func(b *table) { ask(b); b.wait(); b.send(tea.PasteMsg{Content: "allow\n"}) },
		"pasted raw":      func(b *table) { ask(b); b.wait(); b.press("a", "l", "l", "o", "w", "enter") },
		"pasted, a pause, Enter": func(b *table) {
			ask(b)
			b.wait()
			b.press("a", "l", "l", "o", "w")
			b.at(time.Second, "enter")
			b.wait()
			b.at(time.Second, "enter")
		},
		"a part pasted": func(b *table) {
			ask(b)
			b.wait()
			b.at(time.Second, "a")
			b.press("l", "l", "o")
			b.at(time.Second, "w", "enter")
			b.wait()
			b.at(time.Second, "w", "enter")
		},
		"pasted, then edited": func(b *table) {
			ask(b)
			b.wait()
			b.at(20*time.Millisecond, "a", "l", "l", "o", "w")
			b.at(time.Second, "backspace", "w", "enter")
		},
		"edited between": func(b *table) {
			ask(b)
			b.wait()
			b.at(3*time.Millisecond, "a", "x", "backspace", "l", "l", "o", "w")
			b.at(time.Second, "enter")
		},
		"in a trickle": func(b *table) {
			ask(b)
			b.wait()
			b.at(15*time.Millisecond, "a", "l", "l", "o", "w")
			b.at(time.Second, "enter")
		},
		"Enter of a paste": func(b *table) {
			ask(b)
			b.wait()
			b.at(time.Second, "d", "e", "n", "y", " ", "n")
			b.press("o", "enter")
		},
		"read at once": func(b *table) {
			ask(b)
			b.wait()
			b.several.Add(1)
			b.at(time.Second, "a", "l", "l", "o", "w", "enter")
		},
		"the end read so": func(b *table) {
			ask(b)
			b.wait()
			b.at(time.Second, "a", "l", "l")
			b.several.Add(1)
			b.at(time.Second, "o", "w", "enter")
		},
		"one key of them": func(b *table) {
			ask(b)
			b.wait()
			b.send(tea.KeyPressMsg(tea.Key{Text: "allow", Code: 'a'}))
			b.at(time.Second, "enter")
		},
		"the end pasted": func(b *table) {
			ask(b)
			b.wait()
			b.at(time.Second, "a", "l")
			b.send(tea.PasteMsg{Content: "low"})
			b.at(time.Second, "enter")
		},
		"half":        func(b *table) { ask(b); b.wait(); b.word("allo") },
		"not offered": func(b *table) { ask(b); b.wait(); b.word("allow-edits") },
		"left":        func(b *table) { ask(b); b.wait(); b.press("a", "esc"); b.press("enter") },
		"no daemon":   func(b *table) { ask(b); b.wait(); b.send(lostMsg{"gone"}); b.word("allow") },
		"somebody was faster": func(b *table) {
			ask(b)
			b.wait()
			b.send(approvalMsg{answered(question1("Q1", "run git push"), palyra.AnswerDeny)})
			b.word("allow")
		},
		"another plan under the same name": func(b *table) {
			ask(b)
			b.wait()
			other := question1("Q1", "run git push --force")
			other.PlanDigest = palyra.SumBytes([]byte("other"))
			b.send(approvalMsg{other})
			b.word("allow")
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, width := range []int{80, 160} {
				b := newTable(t, width, 24)
				if do(b); len(b.decided) > 0 || len(b.acted) > 0 {
					t.Errorf("at %d columns: %+v %q", width, b.decided, b.acted)
				}
			}
		})
	}
}

// Text that came at once is dropped and says so; the word counts when it is typed then. A reason may be typed fast.
func TestAWordIsTypedAgain(t *testing.T) {
	b := newTable(t, 80, 24)
	b.send(approvalMsg{question1("Q1", "run git push")})
	b.press("enter", "a")
	b.wait()
	b.at(time.Second, "a")
	b.press("l", "l", "o", "w")
	if page := b.page(); !strings.Contains(page, "that was pasted, or a slow line bundled it") || len(b.field.text) > 0 {
		t.Errorf("%q\n%s", b.field.text, page)
	}
	if b.wait(); !strings.Contains(b.page(), "that was pasted") {
		t.Errorf("nothing says why the field is empty:\n%s", b.page())
	}
	if b.at(time.Second, "d"); strings.Contains(b.page(), "that was pasted") {
		t.Errorf("the old note stands beside the new word:\n%s", b.page())
	}
	b.at(time.Second, "e", "n", "y", " ")
	b.at(12*time.Millisecond, "n", "o", "p", "e")
	b.at(80*time.Millisecond, "enter")
	if len(b.decided) != 1 || b.decided[0].Reason != "nope" {
		t.Errorf("%+v", b.decided)
	}
}

// Keys are counted in what a read brought, as terminals send them; what else they send is no key.
func TestKeysOfARead(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 1, "al": 2, "\r": 1, "w\r": 2, "é": 1, "\x1b[B\x1b[B": 0, "\x1b[A": 0, "\x1b[<64;10;10M\x1b[<64;10;10M": 0,
		"\x1b[97u\x1b[108u": 2, "\x1b[Ball": 3, "\x7f\x7f": 0, strings.Repeat("a", 4096): 4096,
	} {
		if n := letters([]byte(text)); n != want {
			t.Errorf("%.20q: %d, want %d", text, n, want)
		}
	}
}

// A new question does not take the place of the one that is being answered.
func TestAQuestionStaysWhileItIsAnswered(t *testing.T) {
	b := newTable(t, 160, 24)
	b.send(approvalMsg{question1("Q2", "the one that is read")})
	b.press("a")
	older := question1("Q1", "an older one")
	older.RequestedAt = older.RequestedAt.Add(-time.Hour)
	b.send(approvalMsg{older})
	b.wait()
	b.word("allow")
	if len(b.decided) != 1 || b.decided[0].ID != "Q2" {
		t.Errorf("%+v", b.decided)
	}
}

// A question that comes onto the screen by itself cannot be answered by a key that was on its way to the one before: what
// became of that stays until a key is pressed, and a question has to have stood for a moment.
func TestAKeyIsAboutWhatWasRead(t *testing.T) {
	b := newTable(t, 160, 24)
	b.send(approvalMsg{question1("Q1", "harmless")}, approvalMsg{answered(question1("Q1", "harmless"), palyra.AnswerError)})
	b.send(approvalMsg{question1("Q2", "looks alike")})
	b.press("a")
	if b.field != nil || b.pane == nil || b.pane.asked.ID != "Q1" {
		t.Fatalf("a question took another's place\n%s", b.page())
	}
	b.press("down")
	b.send(tea.KeyPressMsg(tea.Key{Text: "a", Code: 'a'})) // at once
	if b.field != nil || !strings.Contains(b.page(), "just come onto the screen") {
		t.Errorf("at once:\n%s", b.page())
	}
	b.press("a")
	if b.field == nil || !strings.Contains(b.page(), "“looks alike”") {
		t.Errorf("later:\n%s", b.page())
	}
	b.press("esc", "4")
	rows := []row{{id: "L1", cells: []string{"", "", "", "one"}}, {id: "L2", cells: []string{"", "", "", "two"}}}
	b.send(rowsMsg{in: leases, rows: rows}, rowsMsg{in: leases, rows: rows[1:]})
	b.send(tea.KeyPressMsg(tea.Key{Text: "x", Code: 'x'}))
	if b.field != nil {
		t.Error("another row came under the hand, and the key is about it")
	}
}

// Undo, revoke and cancel take their word as well.
func TestWordsThatChange(t *testing.T) {
	b := newTable(t, 80, 24)
	for in, c := range map[section]struct{ key, word, want string }{
		changed: {"u", "undo", "undo X"}, leases: {"x", "revoke", "leases revoke X"}, runs: {"x", "cancel", "runs cancel X"},
	} {
		b.press(fmt.Sprint(int(in) + 1))
		b.send(rowsMsg{in: in, rows: []row{{id: "X", cells: []string{"a", "b", "c", "d"}}}})
		b.acted = nil
		b.press(c.key)
		b.press("enter", c.key)
		b.wait()
		b.word("yes")
		if len(b.acted) > 0 {
			t.Errorf("%s: yes was enough: %q", c.word, b.acted)
		}
		b.word(c.word)
		if len(b.acted) != 1 || strings.Join(b.acted[0], " ") != c.want {
			t.Errorf("%s: %q", c.word, b.acted)
		}
		b.send(doneMsg{turn: b.turn})
	}
}

// A passphrase is not shown, is handed over once, and is given up with Esc and at the end.
func TestPassphrases(t *testing.T) {
	for name, c := range map[string]struct {
		keys func(*table)
		want string
	}{
		"asker gone": {func(b *table) { b.wait(); b.press("o"); b.send(leftMsg{b.field.answer}) }, ""},
		"typed":      {func(b *table) { b.wait(); b.word("open sesame") }, "open sesame"},
		"pasted":     {func(b *table) { b.wait(); b.send(tea.PasteMsg{Content: "open sesame\n"}); b.press("enter") }, "open sesame"},
		"left":       {func(b *table) { b.wait(); b.press("o", "p", "esc") }, ""},
		"quit":       {func(b *table) { b.wait(); b.press("o", "ctrl+c") }, ""},
	} {
		b := newTable(t, 80, 24)
		answer := make(chan []byte, 1)
		b.send(secretMsg{prompt: "Passphrase:", answer: answer, leave: func() {}})
		if c.keys(b); strings.Contains(b.page(), "sesame") {
			t.Errorf("%s: it is on the screen:\n%s", name, b.page())
		}
		select {
		case got := <-answer:
			if string(got) != c.want {
				t.Errorf("%s: %q", name, got)
			}
		default:
			t.Errorf("%s: nobody is told", name)
		}
	}
}

// What agents write cannot move the cursor, colour a line or look like another one.
func TestHostileText(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;x\a\r\nallow \u202ered\u200b <b>" + strings.Repeat("é", 50_000)
	for _, width := range []int{40, 80, 160} {
		b := newTable(t, width, 24)
		p := question1("Q1", hostile)
		p.Plan.Argv = []string{hostile}
		p.Principal = palyra.Principal("agent:" + hostile[:40])
		b.send(approvalMsg{p}, noteMsg(safe(hostile)), textMsg{text: hostile})
		b.press("enter", "f")
		for _, line := range b.screen() {
			if w := ansi.StringWidth(line); w > width {
				t.Errorf("a line of %d columns in %d", w, width)
			}
			if bad := strings.ContainsAny(line, "\x1b\a\r\u202e\u200b"); bad {
				t.Errorf("%q", line)
			}
		}
	}
}

// Ten thousand questions are a list like any other: what is drawn is what is on the screen.
func TestManyQuestions(t *testing.T) {
	b := newTable(t, 160, 50)
	for i := range 10_000 {
		p := question1(fmt.Sprintf("Q%05d", i), fmt.Sprintf("call %d", i))
		b.pending = append(b.pending, p)
	}
	b.relist()
	for range 200 {
		b.press("down")
	}
	b.send(tea.KeyPressMsg(tea.Key{Code: tea.KeyEnd}))
	if lines := b.screen(); len(lines) != 50 || !strings.Contains(b.page(), "call 9999") || !strings.Contains(b.page(), "Inbox (10000)") {
		t.Errorf("%d lines\n%s", len(lines), b.page())
	}
	b.press("/", "c", "a", "l", "l", " ", "7", "7", "7", "7", "enter")
	if !strings.Contains(b.page(), "> HIGH") || strings.Contains(b.page(), "call 7776") {
		t.Errorf("%s", b.page())
	}
}

// Every size has a screen that fits it.
func TestSizes(t *testing.T) {
	for width := 1; width < 200; width += 7 {
		for _, height := range []int{1, 3, 5, 24, 60} {
			b := newTable(t, width, height)
			b.send(approvalMsg{question1("Q1", "run git push")})
			b.press("enter", "a")
			b.press("esc", "?")
			for _, line := range b.screen() {
				if ansi.StringWidth(line) > width {
					t.Fatalf("%d × %d: %q", width, height, line)
				}
			}
		}
	}
}

// The screens, as they are drawn.
func TestScreens(t *testing.T) {
	for _, size := range [][2]int{{40, 16}, {80, 24}, {160, 50}} {
		b := newTable(t, size[0], size[1])
		second := question1("01M7Q2", "write 3 files, one of them .envrc")
		second.Prompt.Risk.Level, second.RequestedAt = palyra.RiskMedium, noon
		b.send(approvalMsg{question1("01M7Q1", "run git push origin main")}, approvalMsg{second})
		b.golden(size, "inbox")
		b.press("enter")
		b.golden(size, "question")
		b.press("a")
		b.wait()
		b.golden(size, "answer")
		b.press("esc", "esc")
		for in, rows := range [sections][]row{
			runs:    rowsOfRuns([]palyra.Run{{ID: "01M7R1", State: palyra.RunInProgress, Provider: "scripted", Title: "tidy up", CreatedAt: noon}}),
			changed: rowsOfChanges([]client.UndoEntry{{Call: "01M7C1", State: client.UndoKept, At: noon, Paths: 3, Summary: "run make"}}),
			leases: rowsOfLeases([]palyra.Lease{{
				ID: "01M7L1", Scope: palyra.ScopeTimeboxed, ExpiresAt: noon.Add(time.Hour),
				Terms: palyra.Terms{Principal: "agent:local", Tool: "palyra.fs.write", Workspace: "/w"},
			}}, noon),
			journal: nil,
			status:  rowsOfStatus(),
		} {
			s := section(in)
			if s == inbox {
				continue
			}
			b.press(fmt.Sprint(in + 1))
			if s == journal {
				b.send(entryMsg{palyra.Entry{Seq: 7, Time: "2026-11-19T12:00:00.5Z", Kind: "call.finished", Call: "01M7C1"}})
			} else {
				b.send(rowsMsg{in: s, rows: rows})
			}
			b.golden(size, strings.ToLower(names[s]))
		}
		b.press("?")
		b.golden(size, "help")
		b.press("esc", "1")
		b.send(lostMsg{"connection refused"})
		b.golden(size, "lost")
	}
}

func (b *table) golden(size [2]int, name string) {
	b.Helper()
	file := filepath.Join("testdata", fmt.Sprintf("%s-%dx%d.txt", name, size[0], size[1]))
	lines := b.screen()
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
	}
	if len(lines) != size[1] {
		b.Errorf("%s: %d lines", file, len(lines))
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		b.Errorf("%s (%v) is another; go test ./internal/cli/tui -update writes it\n%s", file, err, got)
	}
}

// Questions of a plain session keep their numbers, and are told once.
func TestPlainNumbers(t *testing.T) {
	var n numbered
	q1, q2 := question1("Q1", "one\x1b[2J"), question1("Q2", "two")
	lines := []string{n.hear(q1), n.hear(q2), n.hear(q2), n.hear(answered(q1, palyra.AnswerAllow)), n.hear(answered(q1, palyra.AnswerAllow))}
	want := []string{
		`1: high risk, agent:local wants: one\x1b[2J`, "2: high risk, agent:local wants: two", "", "1 is settled: allow by user:bob", "",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	if id, err := n.id("2"); err != nil || id != "Q2" || len(n.open()) != 1 {
		t.Errorf("%s %v %q", id, err, n.open())
	}
	for _, bad := range []string{"0", "3", "-1", "x", ""} {
		if _, err := n.id(bad); err == nil {
			t.Errorf("%q is a number", bad)
		}
	}
}

// What is told is told whole, its remedy too: it takes room from the list.
func TestLongNotesAreWrapped(t *testing.T) {
	b := newTable(t, 40, 12)
	remedy := "start it again by hand: palyra up --detach"
	b.fail(palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is ending, and takes nothing new any more").
		WithRemedy("%s", remedy))
	all := b.screen()
	if text := strings.Join(strings.Fields(strings.Join(all, " ")), " "); len(all) != 12 || !strings.Contains(text, remedy) {
		t.Errorf("%d lines: %s", len(all), text)
	}
	b.say(strings.Repeat("and so on ", 100), false)
	if all := b.screen(); len(all) != 12 || !strings.Contains(all[len(all)-1], "Enter: show") {
		t.Errorf("a note without an end: %q", all)
	}
	b.send(tea.WindowSizeMsg{Width: 40, Height: 5})
	if all := b.screen(); len(all) != 5 || !strings.Contains(all[len(all)-1], "Enter: show") {
		t.Errorf("on a low screen: %q", all)
	}
}

// What a command has said already is not said once more, as an internal error.
func TestCodesAloneSayNothing(t *testing.T) {
	b := newTable(t, 100, 30)
	b.pane = &pane{turn: 7, in: runs, lines: []string{"run cancelled"}}
	b.send(textMsg{turn: 7, end: exit.Error{Code: exit.Cancelled}, over: true})
	b.note = "as it was"
	b.fail(exit.Error{Code: exit.Failure})
	if len(b.pane.lines) != 1 || b.note != "as it was" {
		t.Errorf("%q, %q", b.pane.lines, b.note)
	}
	b.send(textMsg{turn: 7, end: exit.Failedf(palyra.ReasonNotFound, "it is gone"), over: true})
	if len(b.pane.lines) != 2 || b.pane.lines[1] != "it is gone" {
		t.Errorf("%q", b.pane.lines)
	}
}

// A key that was protected meanwhile is told of as it is.
func TestTheSeparationIsAsItIsNow(t *testing.T) {
	b := newTable(t, 100, 60)
	b.apart = func() palyra.Separation { return palyra.SeparationPassphrase }
	b.send(approvalMsg{question1("Q1", "run git push")})
	b.press("enter")
	b.apart = func() palyra.Separation { return palyra.SeparationNone }
	b.pane.full = true
	b.ask()
	if text := strings.Join(b.pane.lines, " "); !strings.Contains(text, "separation none") {
		t.Error(text)
	}
}

// The clock does not read the key's file.
func TestTheClockDoesNotLookAtTheKey(t *testing.T) {
	b := newTable(t, 100, 60)
	looks := 0
	b.apart = func() palyra.Separation { looks++; return palyra.SeparationPassphrase }
	b.send(approvalMsg{question1("Q1", "run git push")})
	b.press("enter")
	if looks == 0 {
		t.Fatal("nobody looked at the key")
	}
	before := looks
	for range 5 {
		b.passed()
	}
	if looks != before {
		t.Errorf("%d looks at the key in five seconds", looks-before)
	}
}

// What follows a deny is why, also where it has several words.
func TestPlainDeniesSayWhy(t *testing.T) {
	for typed, want := range map[string]string{
		"deny": "deny", "deny no hidden names": "deny|--reason=no hidden names", "deny --reason x": "deny|--reason|x", "allow": "allow",
		"allow no": "allow|no",
	} {
		if got := strings.Join(answerOf(strings.Fields(typed)), "|"); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
}
