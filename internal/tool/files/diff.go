//go:build unix

package files

import (
	"bytes"
	"fmt"
	"strings"

	"znkr.io/diff"
	"znkr.io/diff/textdiff"

	"palyra"
)

// A diff is for a person, who approves what it shows: it contains every new byte. Where it would exceed these
// bounds the plan says so in a bound field, which makes it a call of high risk that no earlier answer covers.
const (
	maxDiffFile  = 1 << 20  // bytes of one file that are compared, before and after together
	maxDiffLines = 40_000   // lines, likewise
	maxDiffAll   = 4 << 20  // bytes of the diff of all files of a call
	maxDiffRaw   = 64 << 10 // bytes of content that is not text
	fastLines    = 10_000   // above so many, over all files, a quicker and longer diff will do
)

// shown is the form in which people see a change set.
type shown struct {
	diff    strings.Builder
	notes   []string
	added   int
	removed int
	lines   int  // compared so far
	hidden  bool // the diff lacks some new content
}

// show renders changes. A rename is shown as one file less and one more.
func show(changes []change) *shown {
	s := &shown{}
	for _, c := range changes {
		s.notes = append(s.notes, c.remarks()...)
		s.addChange(c)
	}
	return s
}

func (s *shown) addChange(c change) {
	if c.unchanged() {
		s.notes = append(s.notes, quoteUnlessPlain(c.path)+" already is as asked")
		return
	}
	from, to := "a/"+c.path, "b/"+c.path
	if !c.before.exists {
		from = "/dev/null"
	}
	if c.remove {
		to = "/dev/null"
	}
	fmt.Fprintf(&s.diff, "--- %s\n+++ %s\n", quoteUnlessPlain(from), quoteUnlessPlain(to))
	d, why := s.body(c)
	if why == "" && s.diff.Len()+len(d) > maxDiffAll {
		why = "the diff of the whole call is too long"
	}
	if why != "" {
		s.describe(c, why)
		return
	}
	s.count(d)
	s.diff.WriteString(d)
	if d != "" && !strings.HasSuffix(d, "\n") {
		s.diff.WriteByte('\n')
	}
}

// body is the diff of one change. It contains all new content, or why says why it does not.
func (s *shown) body(c change) (d, why string) {
	lines := bytes.Count(c.before.content, []byte("\n")) + bytes.Count(c.after, []byte("\n"))
	switch {
	case len(c.before.content)+len(c.after) <= maxDiffFile && lines <= maxDiffLines &&
		(isText(c.before.content) || len(c.before.content) <= maxDiffRaw):
		if !isText(c.after) && len(c.after) > maxDiffRaw {
			return "", "it is not text"
		}
		return s.compared(c, lines), ""
	case c.remove:
		s.removed += bytes.Count(c.before.content, []byte("\n"))
		return c.removedLinesText(), ""
	case len(c.spots) > 0 || c.origin != nil:
		return c.spotted()
	case !isText(c.after) && len(c.after) > maxDiffRaw:
		return "", "it is not text"
	case len(c.after) > maxDiffAll:
		return "", "it is too large"
	}
	s.removed += bytes.Count(c.before.content, []byte("\n"))
	if isText(c.after) {
		return c.removedLinesText() + replaced("", string(c.after), 0, 1), ""
	}
	s.notes = append(s.notes, quoteUnlessPlain(c.path)+" is not text, before or after")
	return c.removedLinesText() + rawNote + replaced("", visible(string(c.after)), 0, 1), ""
}

// compared is an ordinary diff.
func (s *shown) compared(c change, lines int) string {
	var how []textdiff.Option
	if s.lines += lines; s.lines > fastLines {
		how = append(how, diff.Fast())
	}
	before, after, note := string(c.before.content), string(c.after), ""
	if c.before.copy != nil {
		before = string(c.before.copy)
		s.notes = append(s.notes, "the secret values that were in "+quoteUnlessPlain(c.path)+" are masked here")
	}
	if !isText(c.before.content) || !isText(c.after) {
		before, after, note = visible(before), visible(after), rawNote
		s.notes = append(s.notes, quoteUnlessPlain(c.path)+" is not text, before or after")
	}
	return note + textdiff.Unified(before, after, how...)
}

// removedLinesText describes removed lines instead of showing them: they are on disk, and bound by their digest.
func (c change) removedLinesText() string {
	if !c.before.exists || len(c.before.content) == 0 {
		return ""
	}
	return fmt.Sprintf("(all of it goes: %s, %s)\n", size(len(c.before.content)), c.before.digest)
}

// describe shows a change without a diff.
func (s *shown) describe(c change, why string) {
	was, becomes := "nothing", "nothing"
	if c.before.exists {
		was = fmt.Sprintf("%s, %s", size(len(c.before.content)), c.before.digest)
	}
	if !c.remove {
		becomes = fmt.Sprintf("%s, %s", size(len(c.after)), palyra.SumBytes(c.after))
	}
	fmt.Fprintf(&s.diff, "(NOT SHOWN here: %s)\n(was: %s)\n(becomes: %s)\n", why, was, becomes)
	s.notes = append(s.notes, fmt.Sprintf("the content of %s is not shown here: %s", quoteUnlessPlain(c.path), why))
	s.hidden = s.hidden || !c.remove
}

// count counts the lines a unified diff adds and removes.
func (s *shown) count(d string) {
	for line := range strings.Lines(d) {
		switch line[0] {
		case '+':
			s.added++
		case '-':
			s.removed++
		}
	}
}

// detail puts the rendered changes into a plan.
func (s *shown) detail(p *palyra.Plan, summary string) {
	if s.added+s.removed > 0 {
		summary += fmt.Sprintf(" (+%d -%d lines)", s.added, s.removed)
	}
	p.Detail.Summary, p.Detail.Diff = summary, s.diff.String()
	p.Detail.Notes = append(p.Detail.Notes, s.notes...)
	p.Unshown = s.hidden
}
