package sandbox

import (
	"fmt"
	"unicode/utf8"
)

// capture keeps what is delivered of a stream: its first most bytes, its last
// most bytes, and how many there were in all. Memory is bounded by twice most,
// whatever is printed.
//
// The cap of a run holds for both of its streams together. Each keeps a quarter
// of it as head and a quarter as tail, so that neither can crowd the other out and
// what is kept does not depend on which was read first. A terminal is one stream:
// there it is a half and a half.
type capture struct {
	most  int
	head  []byte
	ring  []byte // grows to most, then is written in a circle
	at    int    // where the circle's oldest byte is
	total int64
}

// defaultOutput is the cap of a plan that names none.
const defaultOutput = 1 << 20

// newCapture returns a capture for one of so many streams that share a cap.
func newCapture(outputCap int64, streams int) *capture {
	if outputCap <= 0 {
		outputCap = defaultOutput
	}
	return &capture{most: int(outputCap / int64(2*streams))}
}

// write takes b in and returns the part of it that belongs to the head.
func (c *capture) write(b []byte) (head []byte) {
	c.total += int64(len(b))
	n := min(len(b), c.most-len(c.head))
	c.head = append(c.head, b[:n]...)
	c.turn(b[n:])
	return b[:n]
}

// turn puts b into the ring, over the oldest bytes where it is full.
func (c *capture) turn(b []byte) {
	if over := len(b) - c.most; over > 0 {
		b = b[over:]
	}
	n := min(len(b), c.most-len(c.ring))
	c.ring = append(c.ring, b[:n]...)
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = copy(c.ring[c.at:], b)
		if c.at += n; c.at == len(c.ring) {
			c.at = 0
		}
	}
}

// bytes returns what is delivered, and whether something was left out. Where it
// was, a character that the cut went through is left out as well, so that text
// stays text; the count in the marker includes it.
func (c *capture) bytes() (out []byte, cut bool) {
	tail := append(append(make([]byte, 0, len(c.ring)), c.ring[c.at:]...), c.ring[:c.at]...)
	if c.total == int64(len(c.head)+len(tail)) {
		return append(c.head[:len(c.head):len(c.head)], tail...), false
	}
	head, tail := wholeEnd(c.head), wholeStart(tail)
	out = append(make([]byte, 0, len(head)+len(tail)+len(marker(c.total))), head...)
	out = append(out, marker(c.total-int64(len(head)+len(tail)))...)
	return append(out, tail...), true
}

func marker(n int64) string { return fmt.Sprintf("\n… %d bytes left out …\n", n) }

// wholeEnd drops the beginning of a character from the end of b.
func wholeEnd(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// wholeStart drops the end of a character from the beginning of b. More than the
// three bytes that such an end can have are no text, and stay.
func wholeStart(b []byte) []byte {
	n := 0
	for n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	if n >= utf8.UTFMax {
		return b
	}
	return b[n:]
}
