package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"unicode/utf8"

	"palyra"
)

// capture keeps the deliverable part of a stream: all of it up to the cap of the run, or else its first and its
// last half of that; the total number of bytes, and their digest. The cap bounds its memory, whatever is printed.
type capture struct {
	first, last int // most bytes of head and ring
	head        []byte
	ring        []byte // grows to last, then is written in a circle
	at          int    // index of the circle's oldest byte
	total       int64
	sum         hash.Hash
}

// defaultOutput is the cap of a plan without one.
const defaultOutput = 1 << 20

// outputCap is the cap for the streams of a run together.
func outputCap(l palyra.Limits) int64 {
	if l.OutputBytes > 0 {
		return l.OutputBytes
	}
	return defaultOutput
}

func newCapture(most int64) *capture {
	return &capture{first: int(most - most/2), last: int(most / 2), sum: sha256.New()}
}

// shares divides the cap of a run between its streams. If both fit they are delivered whole.
// Otherwise each stream has a half, and what the other leaves of its own: so neither crowds the
// other out, and the result does not depend on which was read first.
func shares(most, out, err int64) (forOut, forErr int64) {
	return min(out, max(most/2, most-err)), min(err, max(most/2, most-out))
}

// write adds b to the stream.
func (c *capture) write(b []byte) {
	c.total += int64(len(b))
	c.sum.Write(b)
	n := min(len(b), c.first-len(c.head))
	c.head = appendWithin(c.head, b[:n], c.first)
	c.turn(b[n:])
}

// appendWithin appends to a slice that never exceeds most bytes, and allocates no more than that.
func appendWithin(to, b []byte, most int) []byte {
	if need := len(to) + len(b); need > cap(to) {
		to = append(make([]byte, 0, min(most, max(need, 2*cap(to)))), to...)
	}
	return append(to, b...)
}

// turn puts b into the ring, over the oldest bytes where it is full.
func (c *capture) turn(b []byte) {
	if over := len(b) - c.last; over > 0 {
		b = b[over:]
	}
	n := min(len(b), c.last-len(c.ring))
	c.ring = appendWithin(c.ring, b[:n], c.last)
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = copy(c.ring[c.at:], b)
		if c.at += n; c.at == len(c.ring) {
			c.at = 0
		}
	}
}

// digest is that of all written bytes.
func (c *capture) digest() palyra.Digest {
	return palyra.Digest("sha256:" + hex.EncodeToString(c.sum.Sum(nil)))
}

// bytes returns the deliverable part of a stream for its share, and whether something was left out.
// Where it was, a character that the cut went through is left out as well, so that text stays text;
// the count in the marker includes it.
func (c *capture) bytes(share int64) (out []byte, cut bool) {
	tail := append(append(make([]byte, 0, len(c.ring)), c.ring[c.at:]...), c.ring[:c.at]...)
	if c.total <= share && c.total == int64(len(c.head)+len(tail)) {
		return append(c.head[:len(c.head):len(c.head)], tail...), false
	}
	half := int(share / 2)
	all := append(c.head[:len(c.head):len(c.head)], tail...)
	head, tail := wholeEnd(all[:min(half, len(all))]), wholeStart(all[max(0, len(all)-half):])
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

// wholeStart drops the end of a character from the beginning of b. More than the three bytes that
// such an end can have are no text, and stay.
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
