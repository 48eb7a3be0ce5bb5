package files

import (
	"bytes"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"palyra"
)

// maxCompare bounds the lines, and pieces of long lines, that are compared while a
// patch looks for the places of its hunks: a hostile patch could otherwise make that
// quadratic.
const (
	maxCompare    = 10_000_000
	pieceBytes    = 64
	maxPatchLines = 1 << 20  // of a file that is patched
	growth        = 64 << 10 // that files may grow between the first look and the reading
)

// spot is one place of a file that changes: the bytes from at to end give way to
// with. Large files are shown by their spots, which are as small as what was
// asked for, however large the file is.
type spot struct {
	at, end int
	with    string
}

// placer applies the hunks of one file, in order.
type placer struct {
	base   [][]byte // lines of the file, with their ends
	cursor int      // lines of base already copied
	at     int      // bytes of base already copied
	budget *int
	out    []byte
	spots  []spot
}

// patchText applies hunks to base, which errors call by the name given. Every context and removed line must be in the
// file exactly. A hunk whose line number is off is put where its lines stand,
// if that is one place only; what results is shown to the approver as it is, and
// the places that hunks were put are returned for that.
func patchText(rel string, base []byte, hunks []*gitdiff.TextFragment, budget *int) ([]byte, []spot, error) {
	if bytes.Count(base, []byte("\n")) > maxPatchLines {
		return nil, nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "%s has more than %d lines", rel, maxPatchLines).
			WithRemedy("change it with palyra.fs.edit")
	}
	p := &placer{base: bytes.SplitAfter(base, []byte("\n")), budget: budget, out: make([]byte, 0, len(base)+growth)}
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
		return badPatch("it takes too long to find where hunk %d of %s belongs", number, rel)
	case found == 0:
		return badPatch("hunk %d does not match %s at line %d or anywhere after the hunk before it", number, rel, h.OldPosition)
	case found > 1:
		return badPatch("hunk %d does not match %s at line %d and matches in more than one other place", number, rel, h.OldPosition)
	}
	if err := p.copyTo(rel, at); err != nil {
		return err
	}
	s, start := spot{at: p.at, end: p.at}, len(p.out)
	for _, l := range h.Lines {
		if l.New() {
			if err := p.add(rel, []byte(l.Line)); err != nil {
				return err
			}
		}
	}
	for _, l := range old {
		s.end += len(l)
	}
	s.with = string(p.out[start:])
	p.spots, p.at, p.cursor = append(p.spots, s), s.end, at+len(old)
	return nil
}

// add writes a line of the result. A line without an end can only be the last.
func (p *placer) add(rel string, line []byte) error {
	if n := len(p.out); n > 0 && p.out[n-1] != '\n' {
		return badPatch("a line of %s that is not the last is marked as having no newline", rel)
	}
	p.out = append(p.out, line...)
	return nil
}

// find returns where the old lines stand and in how many places, up to two.
func (p *placer) find(old []string, h *gitdiff.TextFragment) (at, found int) {
	stated := int(min(max(h.OldPosition-1, 0), int64(len(p.base))))
	if len(old) == 0 { // nothing to look for: after the stated line, or nowhere
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
