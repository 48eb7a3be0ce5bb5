package tui

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"palyra/internal/cli/screen"
)

// Times of a field.
const (
	still = 400 * time.Millisecond // without a key before keys count: those typed ahead come at once
	read  = time.Second            // a question is on the screen before a key is about it
)

// mostTyped is the longest text that a field takes.
const mostTyped = 1024

// field takes a typed word.
type field struct {
	prompt string   // what the word is for, safe
	words  []string // that count; of a secret none
	rest   bool     // text may follow the word
	secret bool
	spans  []string // what Tab goes through
	span   int
	own    bool // some words hold for a time of their own where none is chosen

	answer chan<- []byte // of a secret

	busy  string             // what is done with the word: no key counts but Esc; "": it is being typed
	of    int                // the turn of what is done
	leave context.CancelFunc // ends it

	text   []byte
	armed  bool // keys count
	turn   int  // of the wait that arms it
	pasted bool // that is why they do not
	pace   pace
	reads  int64 // that brought several letters, as far as the keys know

	// done is called with what was typed. Nil text of a secret: it was given up.
	done func(m *model, text []byte) cmd
}

// takesWord reports whether what is typed decides something: what it is about can go away.
func (f *field) takesWord() bool { return !f.secret && f.busy == "" }

// Notes on keys that count for nothing.
const (
	aheadNote  = "typed ahead: it counts for nothing; wait, then type"
	pastedNote = "that was pasted, or a slow line bundled it: type the word letter by letter"
)

// key is a key that a field gets: text that was typed, or the name of another key. Reads is how many reads have brought
// several letters so far.
func (f *field) key(text, name string, now time.Time, reads int64) (entered bool, note string) {
	switch {
	case !f.armed:
		f.turn, f.reads = f.turn+1, reads // the wait begins anew
		if f.pasted {
			return false, pastedNote
		}
		return false, aheadNote
	case !f.secret && f.atOnce(text, name, now, reads):
		f.disarm()
		return false, pastedNote
	case name == "enter":
		return f.enter()
	case name == "backspace":
		if len(f.text) > 0 {
			_, n := utf8.DecodeLastRune(f.text)
			clear(f.text[len(f.text)-n:])
			f.text = f.text[:len(f.text)-n]
		}
	case name == "tab" && len(f.spans) > 0:
		f.span = (f.span + 1) % len(f.spans)
	case text != "" && len(f.text)+len(text) <= mostTyped:
		f.grow()
		f.text = append(f.text, text...)
	}
	return false, ""
}

// atOnce reports whether a key came together with others, as no person presses them. What follows the word may come fast.
func (f *field) atOnce(text, name string, now time.Time, reads int64) bool {
	together := reads != f.reads || utf8.RuneCountInString(text) > 1
	f.reads = reads
	switch {
	case name == "enter":
		return together || f.pace.right(now)
	case text != "" && f.pace.letter(now):
		_, _, more := strings.Cut(strings.TrimLeftFunc(string(f.text), unicode.IsSpace), " ")
		return together || !more
	}
	return together
}

// enter ends the word.
func (f *field) enter() (entered bool, note string) {
	if f.secret {
		return true, ""
	}
	word, _, more := strings.Cut(strings.TrimSpace(string(f.text)), " ")
	switch {
	case len(f.text) == 0:
		return false, "nothing is decided by Enter alone: type " + choices(f.words)
	case !slices.Contains(f.words, word) || more && !f.rest:
		f.wipe()
		return false, "no word of this question: type " + choices(f.words) + ", or Esc to leave it"
	}
	return true, ""
}

// paste is text that came at once.
func (f *field) paste(text string, reads int64) (note string) {
	if !f.secret {
		f.disarm()
		f.reads = reads
		return "pasted text decides nothing: type the word"
	}
	if f.armed && len(f.text)+len(text) <= mostTyped {
		f.grow()
		f.text = append(f.text, strings.TrimRight(text, "\r\n")...)
	}
	return ""
}

// disarm drops what came at once; what follows without a pause counts for nothing either.
func (f *field) disarm() {
	f.wipe()
	f.armed, f.pasted, f.turn = false, true, f.turn+1
}

// grow has the text in one place in memory, which is wiped.
func (f *field) grow() {
	if cap(f.text) < mostTyped {
		f.text = make([]byte, 0, mostTyped)
	}
}

// wipe forgets what was typed.
func (f *field) wipe() {
	clear(f.text)
	f.text = f.text[:0]
}

// shown is the field on a line; brief where there is no room for what it is for.
func (f *field) shown(s screen.Style, brief bool) string {
	if f.prompt == "" {
		return s.Strong(f.busy)
	}
	text := s.Strong(f.prompt)
	if brief {
		text = s.Strong(map[bool]string{true: "Passphrase:", false: "Type:"}[f.secret])
	}
	if len(f.spans) > 0 {
		text += " " + s.Calm("(tab: "+f.offered()+")")
	}
	switch {
	case f.busy != "":
		return text + " " + s.Calm(f.busy)
	case !f.armed:
		return text + " " + s.Calm("…")
	case f.secret:
		return text + " " + strings.Repeat("•", utf8.RuneCount(f.text)) + "_"
	}
	return text + " " + safe(string(f.text)) + "_"
}

// chosen is what Tab went to; "": there is nothing to choose.
func (f *field) chosen() string {
	if len(f.spans) == 0 {
		return ""
	}
	return f.spans[f.span]
}

// offered is what Tab went to, with the word that it is of where it is not of all.
func (f *field) offered() string {
	if span := f.chosen(); !f.own || span != "once" && span != "session" {
		return span
	}
	return "allow " + f.chosen()
}

// choices names words for people.
func choices(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
