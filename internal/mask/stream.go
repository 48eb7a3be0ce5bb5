package mask

import "io"

// Stream masks what is written to it and writes it on. It holds back only what may be a value that is not all there
// yet: up to the length of its longest form. Who sees when something comes through could try values out by that: what
// somebody watches goes through Live.
type Stream struct {
	m      *Masker
	to     io.Writer
	held   []byte // not written yet
	failed error
}

// Stream returns one that writes to w.
func (m *Masker) Stream(w io.Writer) *Stream { return &Stream{m: m, to: w} }

// Write implements io.Writer. An error is that of the writer behind it, and stays.
func (s *Stream) Write(b []byte) (int, error) {
	if t := s.m.current(); t != nil {
		s.held = append(s.held, b...)
		s.sift(t, false)
	} else if len(s.held) > 0 { // nothing is known any more
		s.sift(nil, true)
		s.pass(b)
	} else {
		s.pass(b)
	}
	if s.failed != nil {
		return 0, s.failed
	}
	return len(b), nil
}

// Flush writes what is held back: nothing follows it.
func (s *Stream) Flush() error {
	s.sift(s.m.current(), true)
	return s.failed
}

// Lines returns a writer that masks each write by itself: a log's, which writes a line at a time.
func (m *Masker) Lines(w io.Writer) io.Writer { return lineWriter{m, w} }

type lineWriter struct {
	m  *Masker
	to io.Writer
}

// Write implements io.Writer.
func (l lineWriter) Write(b []byte) (int, error) {
	if _, err := l.to.Write(l.m.Bytes(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *Stream) pass(b []byte) {
	if len(b) > 0 && s.failed == nil {
		_, s.failed = s.to.Write(b)
	}
}

// sift writes what is known to be no value, and names for values. At the end that is all.
func (s *Stream) sift(t *table, end bool) {
	b, done := s.held, 0
	passTo := func(to int) {
		if done < to {
			s.pass(b[done:to])
			done = to
		}
	}
	for at := 0; t != nil; {
		next := t.next(b, at)
		if next < 0 {
			break
		}
		m := t.at(b[next:])
		switch {
		case m.open && !end: // the rest of it says
			passTo(next)
			s.keep(next)
			return
		case m.end > 0:
			passTo(next)
			s.pass(t.marks[m.mark])
			done = next + m.end
			at = done
		default:
			at = next + 1
		}
	}
	if t == nil || end {
		passTo(len(b))
		s.keep(len(b))
		return
	}
	n := t.begun(b[done:])
	passTo(len(b) - n)
	s.keep(len(b) - n)
}

// keep holds back what comes from a place on.
func (s *Stream) keep(from int) {
	if from == 0 {
		return
	}
	if from == len(s.held) {
		s.held = s.held[:0]
		if cap(s.held) > 1<<20 {
			s.held = nil
		}
		return
	}
	s.held = append(s.held[:0], s.held[from:]...)
}
