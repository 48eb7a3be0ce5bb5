// Package unified reads unified diffs, as "diff -u" and "git diff" write them, and applies their hunks
// to texts in memory. Every context and removed line must match exactly; it touches no file.
package unified

import (
	"bytes"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"palyra"
)

// MaxCompare bounds the lines, and pieces of long lines, that are compared in the search for the
// places of a patch's hunks: a hostile patch could otherwise make that quadratic.
const (
	MaxCompare    = 10_000_000
	pieceBytes    = 64
	MaxPatchLines = 1 << 20  // of a file that is patched
	Growth        = 64 << 10 // bytes that files may grow between their status and their reading
)

// Spot is one place of a file that changes: the bytes from at to end are replaced by With. Large
// files are shown by their spots, which are as small as the edit, however large the file is.
type Spot struct {
	At, End int
	With    string
}

// placer applies the hunks of one file, in order.
type placer struct {
	base   [][]byte // lines of the file, with their ends
	cursor int      // lines of base already copied
	at     int      // bytes of base already copied
	budget *int
	out    []byte
	spots  []Spot
}

// Apply applies hunks to base; errors name it rel. Every context and removed line must be in the
// file exactly. A hunk whose line number is off is applied where its lines are, if that is one
// place only; the approver sees the result, and Apply returns the places of the hunks for that.
func Apply(rel string, base []byte, hunks []*gitdiff.TextFragment, budget *int) ([]byte, []Spot, error) {
	if bytes.Count(base, []byte("\n")) > MaxPatchLines {
		return nil, nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "%s has more than %d lines", rel, MaxPatchLines).
			WithRemedy("change it with palyra.fs.edit")
	}
	p := &placer{base: bytes.SplitAfter(base, []byte("\n")), budget: budget, out: make([]byte, 0, len(base)+Growth)}
	if n := len(p.base); len(p.base[n-1]) == 0 {
		p.base = p.base[:n-1]
	}
	for i, h := range hunks {
		if err := p.place(rel, i+1, h); err != nil {
			return nil, nil, err
		}
	}
	err := p.copyTo(rel, len(p.base))
	return p.out, p.spots, err
}

func (p *placer) copyTo(rel string, line int) error {
	for ; p.cursor < line; p.cursor++ {
		if err := p.add(rel, p.base[p.cursor]); err != nil {
			return err
		}
		p.at += len(p.base[p.cursor])
	}
	return nil
}

func (p *placer) place(rel string, number int, h *gitdiff.TextFragment) error {
	var old []string
	for _, l := range h.Lines {
		if l.Old() {
			old = append(old, l.Line)
		}
	}
	at, found := p.find(old, h)
	switch {
	case *p.budget < 0:
		return Mismatch("it takes too long to find where hunk %d of %s belongs", number, rel)
	case found == 0:
		return Mismatch("hunk %d does not match %s at line %d or anywhere after the hunk before it", number, rel, h.OldPosition)
	case found > 1:
		return Mismatch("hunk %d does not match %s at line %d and matches in more than one other place", number, rel, h.OldPosition)
	}
	if err := p.copyTo(rel, at); err != nil {
		return err
	}
	s, start := Spot{At: p.at, End: p.at}, len(p.out)
	for _, l := range h.Lines {
		if l.New() {
			if err := p.add(rel, []byte(l.Line)); err != nil {
				return err
			}
		}
	}
	for _, l := range old {
		s.End += len(l)
	}
	s.With = string(p.out[start:])
	p.spots, p.at, p.cursor = append(p.spots, s), s.End, at+len(old)
	return nil
}

// add writes a line of the result. A line without an end can only be the last.
func (p *placer) add(rel string, line []byte) error {
	if n := len(p.out); n > 0 && p.out[n-1] != '\n' {
		return Mismatch("a line of %s that is not the last is marked as having no newline", rel)
	}
	p.out = append(p.out, line...)
	return nil
}

// find returns where the old lines are and in how many places, up to two.
func (p *placer) find(old []string, h *gitdiff.TextFragment) (at, found int) {
	stated := int(min(max(h.OldPosition-1, 0), int64(len(p.base))))
	if len(old) == 0 { // nothing to look for: the place is after the stated line
		stated = int(min(h.OldPosition, int64(len(p.base)+1)))
		if stated >= p.cursor && stated <= len(p.base) && h.OldPosition >= 0 {
			return stated, 1
		}
		return 0, 0
	}
	if stated >= p.cursor && p.matches(old, stated) {
		return stated, 1
	}
	for i := p.cursor; i+len(old) <= len(p.base) && *p.budget >= 0 && found < 2; i++ {
		if p.matches(old, i) {
			at, found = i, found+1
		}
	}
	return at, found
}

func (p *placer) matches(old []string, at int) bool {
	if at+len(old) > len(p.base) {
		return false
	}
	for i, line := range old {
		if *p.budget--; len(p.base[at+i]) != len(line) {
			return false
		}
		if *p.budget -= len(line) / pieceBytes; string(p.base[at+i]) != line || *p.budget < 0 {
			return false
		}
	}
	return true
}
