package lend

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"palyra/secrets"
)

// maxMessage is the longest first message in which a placeholder is looked for.
const maxMessage = 64 << 10

// upgraded is the server's side of a WebSocket: a value goes into the first message of the client, and is masked in
// what the server sends.
func (x *exchange) upgraded(c io.ReadWriteCloser) io.ReadWriteCloser {
	back := x.masks.reader(both{c, c}, -1, func() {})
	if m, ok := back.(*masked); ok {
		m.frames = &frames{}
	}
	f := &firstMessage{Closer: c, Reader: back, to: c, note: x.way.Note}
	for _, l := range x.desk.at(x.way.At) {
		if l.Kind == secrets.WebSocket {
			f.loans = append(f.loans, l)
		}
	}
	f.done = len(f.loans) == 0
	return f
}

// firstMessage holds the client's bytes back until its first message is whole.
type firstMessage struct {
	io.Reader
	io.Closer
	to    io.Writer
	loans []secrets.Loan
	note  func(Use)
	held  []byte
	done  bool
}

// Write implements io.Writer.
func (f *firstMessage) Write(b []byte) (int, error) {
	if f.done {
		return f.to.Write(b)
	}
	f.held = append(f.held, b...)
	for !f.done {
		head, ok := frameHead(f.held)
		switch {
		case !ok && len(f.held) < maxFrameHead:
			return len(b), nil
		case !ok, head.size > maxMessage, !head.last && !head.control, !head.masked:
			f.done = true
		case len(f.held) < head.length+head.size:
			return len(b), nil
		case head.control:
			if err := f.give(head.length + head.size); err != nil {
				return 0, err
			}
		default:
			if err := f.substitute(head); err != nil {
				return 0, err
			}
			f.done = true
		}
	}
	if err := f.give(len(f.held)); err != nil {
		return 0, err
	}
	f.held = nil
	return len(b), nil
}

// give passes on the first bytes that are held.
func (f *firstMessage) give(n int) error {
	_, err := f.to.Write(f.held[:n])
	f.held = f.held[n:]
	return err
}

// substitute puts values into the frame that is held first.
func (f *firstMessage) substitute(h frame) error {
	payload := slices.Clone(f.held[h.length : h.length+h.size])
	unmask(payload, h.key)
	changed := false
	for _, l := range f.loans {
		if !bytes.Contains(payload, []byte(l.Placeholder)) {
			continue
		}
		quoted := bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("{"))
		err := l.Value.Use(func(v []byte) error {
			if quoted && strings.ContainsAny(string(v), "\"\\\r\n\t") {
				return unfit(l)
			}
			payload = bytes.ReplaceAll(payload, []byte(l.Placeholder), v)
			return nil
		})
		if err != nil {
			return err
		}
		changed = true
		f.note(Use{Used: []string{l.Name}})
	}
	if changed {
		f.held = append(newFrame(f.held[0], payload), f.held[h.length+h.size:]...)
	}
	return nil
}

// frame is the head of a WebSocket frame.
type frame struct {
	last, control, masked bool
	length, size          int // of the head, and of the payload
	key                   [4]byte
}

const maxFrameHead = 14

// frameHead reads the head of a frame; false: it is not whole.
func frameHead(b []byte) (f frame, ok bool) {
	if len(b) < 2 {
		return f, false
	}
	f.last, f.control, f.masked = b[0]&0x80 != 0, b[0]&0x08 != 0, b[1]&0x80 != 0
	f.length, f.size = 2, int(b[1]&0x7f)
	switch f.size {
	case 126:
		if len(b) < 4 {
			return f, false
		}
		f.length, f.size = 4, int(binary.BigEndian.Uint16(b[2:]))
	case 127:
		if len(b) < 10 {
			return f, false
		}
		size := binary.BigEndian.Uint64(b[2:])
		f.length, f.size = 10, int(min(size, math.MaxInt))
	}
	if f.masked {
		if len(b) < f.length+4 {
			return f, false
		}
		copy(f.key[:], b[f.length:])
		f.length += 4
	}
	return f, true
}

func unmask(b []byte, key [4]byte) {
	for i := range b {
		b[i] ^= key[i%4]
	}
}

// newFrame writes a masked frame of a client.
func newFrame(first byte, payload []byte) []byte {
	out := []byte{first}
	switch n := len(payload); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	var key [4]byte
	_, _ = rand.Read(key[:]) // it never fails
	out = append(out, key[:]...)
	body := slices.Clone(payload)
	unmask(body, key)
	return append(out, body...)
}

// errFrame means that a server sends what no server may.
var errFrame = errors.New("lend: the server sends frames that only clients may send, or that are too long")

// maxControl is how much a control frame may carry.
const maxControl = 125

// frames take what the frames of a server carry out of them, and put it back masked: a value may go on in the next frame, or
// in the next message. What is masked has the length that it had, so that the frames' own heads stay true.
type frames struct {
	head    []byte // of a frame, as far as it came
	control bool   // head is that of a control frame, followed by what it carries
	more    bool   // the message goes on in another frame
	left    int    // bytes of the frame that are still to come
	order   []span
}

// span is a part of what a server sent: bytes as they are, or so many of what frames carry.
type span struct {
	raw     []byte
	carried int
}

// split takes what came apart.
func (f *frames) split(b []byte, carried *[]byte, m masks) error {
	for len(b) > 0 {
		switch n := min(f.left, len(b)); {
		case f.control && n > 0:
			f.head, b, f.left = append(f.head, b[:n]...), b[n:], f.left-n
			f.controlled(m)
			continue
		case n > 0:
			*carried = append(*carried, b[:n]...)
			if last := len(f.order) - 1; last >= 0 && f.order[last].raw == nil {
				f.order[last].carried += n
			} else {
				f.order = append(f.order, span{carried: n})
			}
			b, f.left = b[n:], f.left-n
			continue
		}
		f.head = append(f.head, b[0])
		b = b[1:]
		h, whole := frameHead(f.head)
		switch {
		case !whole:
			continue
		case h.masked || h.control && h.size > maxControl:
			return errFrame
		}
		if f.left, f.control = h.size, h.control; f.control {
			f.controlled(m)
			continue
		}
		f.order, f.head, f.more = append(f.order, span{raw: f.head}), nil, !h.last
	}
	return nil
}

// whole reports whether nothing of a message is still to come.
func (f *frames) whole() bool { return f.left == 0 && len(f.head) == 0 && !f.more }

// controlled ends a control frame that is all there. It may stand between the parts of a message.
func (f *frames) controlled(m masks) {
	if f.left == 0 {
		m.mask(f.head[2:], len(f.head)-2)
		f.order, f.head, f.control = append(f.order, span{raw: f.head}), nil, false
	}
}

// join puts frames together, as far as what they carry is there.
func (f *frames) join(out, carried []byte) []byte {
	for len(f.order) > 0 {
		s := &f.order[0]
		if s.raw == nil {
			n := min(s.carried, len(carried))
			out, carried = append(out, carried[:n]...), carried[n:]
			if s.carried -= n; s.carried > 0 {
				return out
			}
		}
		out = append(out, s.raw...)
		f.order = f.order[1:]
	}
	return out
}
