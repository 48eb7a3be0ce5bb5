// Package pattern holds regular expressions of strangers to what they may cost.
//
// An expression in RE2 syntax takes time in proportion to its text and to its machine, and the machine can be large
// although the expression is short: ".{0,1000}" a hundred times is 900 characters and a hundred thousand states,
// each of which is looked at for every byte. So an expression is weighed before it is compiled, and refused when it
// is too heavy; and a search in a long text looks up, in steps of bounded work, whether it is still wanted.
//
// A weight is about the number of states; work is weight times bytes.
package pattern

import (
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// MaxWeight is how heavy an expression may be.
const MaxWeight = 4 << 10

const (
	maxLength   = 4 << 10 // bytes of an expression
	maxFolded   = 8       // classes of one in which case does not count: each may take milliseconds to read
	runesAState = 8       // of a class of characters
	atOnce      = 1 << 18 // work that is done without looking up: some milliseconds
)

// ErrTooHeavy is an expression whose machine would be too large.
var ErrTooHeavy = errors.New("pattern: too many repetitions or alternatives")

// Weight says how large the machine of an expression is, MaxWeight+1 for all that is
// larger. It is known without building the machine.
func Weight(expr string) (int, error) {
	if len(expr) > maxLength || strings.Contains(expr, "(?") && strings.Contains(expr, "i") && strings.Count(expr, "[") > maxFolded {
		return MaxWeight + 1, nil // to read it already takes long
	}
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return weigh(re), nil
}

func weigh(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/runesAState
	if re.Op == syntax.OpLiteral {
		n = 1 + len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+weigh(sub), MaxWeight+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, MaxWeight+1)
}

// Pattern is an expression that may be searched for.
type Pattern struct {
	re     *regexp.Regexp
	weight int
}

// Compile builds an expression. The error is ErrTooHeavy, or what is wrong with it (*syntax.Error).
func Compile(expr string) (*Pattern, error) {
	weight, err := Weight(expr)
	if err != nil {
		return nil, err
	}
	if weight > MaxWeight {
		return nil, ErrTooHeavy
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	return &Pattern{re: re, weight: weight}, nil
}

// Work is what a search in n bytes takes.
func (p *Pattern) Work(n int) int { return p.weight * (n + 1) }

// Find returns where the first match in b is, as regexp's FindIndex does. Where that
// takes long alive is asked in between, and its error ends the search.
func (p *Pattern) Find(b []byte, alive func() error) ([]int, error) {
	if p.Work(len(b)) <= atOnce {
		return p.re.FindIndex(b), nil
	}
	r := &reader{b: b, alive: alive, pause: max(1, atOnce/p.weight)}
	at := p.re.FindReaderIndex(r)
	if r.err != nil {
		return nil, r.err
	}
	return at, nil
}

// reader gives a text rune by rune, and ends it when it is no longer wanted.
type reader struct {
	b     []byte
	at    int
	pause int // bytes between two looks up
	next  int
	alive func() error
	err   error
}

// ReadRune implements io.RuneReader. Bytes that are not UTF-8 are taken one by one, as regexp takes them.
func (r *reader) ReadRune() (rune, int, error) {
	if r.at >= r.next && r.err == nil {
		r.err, r.next = r.alive(), r.at+r.pause
	}
	if r.err != nil || r.at == len(r.b) {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRune(r.b[r.at:])
	r.at += n
	return c, n, nil
}
