package tui

import (
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// Times that no person types in. Each gap counts, so that no pause makes a pasted word a typed one.
const (
	quick  = 10 * time.Millisecond  // from one letter to the next
	typing = 100 * time.Millisecond // from a letter to the third after it: no word that decides is shorter
)

// pace is when the last letters came, the last one first. It outlives what is taken back.
type pace [3]time.Time

// letter notes a letter, and reports whether it came too fast for a person.
func (p *pace) letter(now time.Time) (fast bool) {
	fast = p.right(now) || now.Sub(p[2]) < typing
	*p = pace{now, p[0], p[1]}
	return fast
}

// right reports whether a key comes right with the last letter.
func (p *pace) right(now time.Time) bool { return now.Sub(p[0]) < quick }

// keyboard is a terminal whose reads are counted that bring several keys at once. When they are handled says less: a busy
// machine handles them one by one.
type keyboard struct {
	*os.File
	several *atomic.Int64
}

// heard is what the screen reads from, and counts where it is a terminal.
func heard(in io.Reader, several *atomic.Int64) io.Reader {
	if f, ok := in.(*os.File); ok {
		return keyboard{f, several}
	}
	return in
}

// Read implements io.Reader.
func (k keyboard) Read(p []byte) (int, error) {
	n, err := k.File.Read(p)
	if n > 0 && letters(p[:n]) > 1 {
		k.several.Add(1)
	}
	return n, err //nolint:wrapcheck // it is the file's
}

// letters is how many of the keys that came type something, or are Enter.
func letters(b []byte) (n int) {
	var state byte
	for len(b) > 0 {
		seq, width, used, next := ansi.DecodeSequence(b, state, nil)
		if width > 0 || strings.ContainsAny(string(seq[len(seq)-1:]), "\r\nu~_") { // as some terminals send letters
			n++
		}
		b, state = b[used:], next
	}
	return n
}
