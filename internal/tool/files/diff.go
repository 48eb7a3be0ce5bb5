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

// A diff is for a person. What is beyond these bounds is described by sizes and
// digests instead, and a note says so.
const (
	maxDiffFile  = 1 << 20 // bytes of one file, before and after together
	maxDiffLines = 40_000  // lines, likewise
	maxDiffAll   = 4 << 20 // bytes of the diff of all files of a call
	fastLines    = 10_000  // from here on, of all files, a quicker and longer diff will do
)

// shown is what a change set looks like to a person.
type shown struct {
	diff    strings.Builder
	notes   []string
	added   int
	removed int
	lines   int // compared so far
}

// show renders changes. Renames are shown as what they are: one file less, one
// more.
func show(changes []change) *shown {
	s := &shown{}
	for _, c := range changes {
		s.notes = append(s.notes, c.remarks()...)
		s.one(c)
	}
	return s
}

func (s *shown) one(c change) {
	if c.same() {
		s.notes = append(s.notes, plain(c.path)+" already is as asked")
		return
	}
	from, to := "a/"+c.path, "b/"+c.path
	if !c.before.exists {
		from = "/dev/null"
	}
	if c.remove {
		to = "/dev/null"
	}
	fmt.Fprintf(&s.diff, "--- %s\n+++ %s\n", plain(from), plain(to))
	lines := bytes.Count(c.before.content, []byte("\n")) + bytes.Count(c.after, []byte("\n"))
	if why := undiffable(c, lines); why != "" || s.diff.Len() > maxDiffAll {
		if why == "" {
			why = "the diff of the whole call is too long"
		}
		s.describe(c, why)
		return
	}
	var how []textdiff.Option
	if s.lines += lines; s.lines > fastLines {
		how = append(how, diff.Fast())
	}
	d := textdiff.Unified(string(c.before.content), string(c.after), how...)
	s.count(d)
	s.diff.WriteString(d)
	if d != "" && !strings.HasSuffix(d, "\n") {
		s.diff.WriteByte('\n')
	}
}

// undiffable says why a change cannot be shown line by line.
func undiffable(c change, lines int) string {
	switch {
	case !isText(c.before.content) || !isText(c.after):
		return "it is not text"
	case len(c.before.content)+len(c.after) > maxDiffFile || lines > maxDiffLines:
		return "it is too large"
	}
	return ""
}

// describe stands in for a diff.
func (s *shown) describe(c change, why string) {
	was, becomes := "nothing", "nothing"
	if c.before.exists {
		was = fmt.Sprintf("%s, %s", size(len(c.before.content)), c.before.digest)
	}
	if !c.remove {
		becomes = fmt.Sprintf("%s, %s", size(len(c.after)), palyra.SumBytes(c.after))
	}
	fmt.Fprintf(&s.diff, "(not shown line by line: %s)\n(was: %s)\n(becomes: %s)\n", why, was, becomes)
	s.notes = append(s.notes, fmt.Sprintf("the content of %s is not shown: %s", plain(c.path), why))
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

// detail puts what is shown into a plan.
func (s *shown) detail(p *palyra.Plan, summary string) {
	if s.added+s.removed > 0 {
		summary += fmt.Sprintf(" (+%d -%d lines)", s.added, s.removed)
	}
	p.Detail.Summary, p.Detail.Diff = summary, s.diff.String()
	p.Detail.Notes = append(p.Detail.Notes, s.notes...)
}
