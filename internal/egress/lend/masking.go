package lend

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/mask"
	"palyra/secrets"
)

// pair is a form of a value and what it is replaced with, which has the same length: what says how long a text is
// stays true.
type pair struct{ what, with []byte }

// masks are the forms of the values that must not come back, the longest first.
type masks struct {
	pairs   []pair
	longest int
	folded  bool // a value has more than one line
}

// masksOf makes them.
func masksOf(loans []secrets.Loan) (m masks) {
	for _, l := range loans {
		_ = l.Value.Use(func(b []byte) error {
			if len(b) < secrets.MinMasked {
				return nil
			}
			b = mask.Core(b)
			m.folded = m.folded || bytes.ContainsRune(b, '\n')
			stand := make([]byte, len(b))
			for i := range stand {
				stand[i] = l.Placeholder[i%len(l.Placeholder)]
			}
			for _, way := range mask.Ways() {
				m.add(way(b), way(stand))
			}
			return nil
		})
	}
	slices.SortStableFunc(m.pairs, func(a, b pair) int { return cmp.Compare(len(b.what), len(a.what)) })
	return m
}

func (m *masks) add(what, with []byte) {
	if len(what) < secrets.MinMasked {
		return
	}
	for _, p := range m.pairs {
		if bytes.Equal(p.what, what) {
			return
		}
	}
	fit := make([]byte, len(what))
	for i := copy(fit, with); i < len(fit); i++ {
		fit[i] = '*'
	}
	m.pairs = append(m.pairs, pair{what, fit})
	m.longest = max(m.longest, len(what))
}

// clear overwrites the values.
func (m masks) clear() {
	for _, p := range m.pairs {
		clear(p.what)
	}
}

// first finds the first form that begins before limit, of several there the longest.
func (m masks) first(b []byte, limit int) (at int, p pair, ok bool) {
	at = limit
	for _, one := range m.pairs { // a shorter one must begin earlier
		if i := bytes.Index(b[:min(len(b), at+len(one.what)-1)], one.what); i >= 0 && i < at {
			at, p, ok = i, one, true
		}
	}
	return at, p, ok
}

// mask masks what begins in the first limit bytes, in place, and returns how many bytes are done: limit, or more where a
// form goes on behind it.
func (m masks) mask(b []byte, limit int) (done int) {
	for done < limit {
		at, p, ok := m.first(b[done:], limit-done)
		if !ok {
			return limit
		}
		copy(b[done+at:], p.with)
		done += at + len(p.with)
	}
	return done
}

func (m masks) text(s string) string {
	b := []byte(s)
	m.mask(b, len(b))
	return string(b)
}

// head masks a response's head. A field whose name has a value in it is dropped.
func (m masks) head(h http.Header) {
	if len(h) == 0 || !m.inHead(h) {
		return
	}
	for name, values := range h {
		if m.text(name) != name || m.text(strings.ToLower(name)) != strings.ToLower(name) {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = m.text(v)
		}
	}
}

// heads are for looking through all of a head at once.
var heads = sync.Pool{New: func() any { return new([]byte) }}

// inHead reports whether a form may be anywhere in a head.
func (m masks) inHead(h http.Header) bool {
	kept := heads.Get().(*[]byte)
	defer heads.Put(kept)
	b := (*kept)[:0]
	for name, values := range h {
		b = append(append(b, name...), 0)
		for i := range len(name) { // net/http lets no other letters into a name
			c := name[i]
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b = append(b, c)
		}
		b = append(b, 0)
		for _, v := range values {
			b = append(append(b, v...), 0)
		}
	}
	if *kept = b[:0]; cap(b) > maxHead {
		*kept = nil
	}
	_, _, found := m.first(b, len(b))
	return found
}

// pause is how long the end of what came is held back for the rest of a form. What is held back, and how long, follows from
// nothing but how much came and when: otherwise whoever has bytes sent back could try values out, letter by letter.
// After a pause whole lines go, or whole messages of a WebSocket: nothing that goes on. The end of what stays open goes after a
// time that no network takes for the next bytes, so that a client cannot cut a value by the moment at which it reads.
const (
	pause    = 25 * time.Millisecond
	patience = 5 * time.Second
)

// reader masks what is read, of which size bytes are to come; negative: nobody knows. When all is read ended is called.
func (m masks) reader(r io.ReadCloser, size int64, ended func()) io.ReadCloser {
	if len(m.pairs) == 0 {
		return r
	}
	first := pieceBytes
	if size >= 0 {
		first = int(min(size, pieceBytes)) + 1
	}
	return &masked{masks: m, src: r, ended: ended, first: first, pause: pause, closed: make(chan struct{})}
}

// pieceBytes is how much is read at once.
const pieceBytes = 16 << 10

// piece is what one read brought.
type piece struct {
	b   []byte
	err error
}

type masked struct {
	masks
	src    io.ReadCloser
	ended  func()
	first  int // bytes that are read at first
	pause  time.Duration
	over   sync.Once
	pieces chan piece    // from the source, when the first read was not all
	free   chan []byte   // the buffer of pieces
	closed chan struct{} // closed when nobody reads any more
	buf    []byte        // read and not given
	ready  int           // bytes of buf that can be given
	frames *frames       // buf has what is inside of them; nil: there are none
	out    []byte        // frames that can be given
	paused bool          // what is whole has gone
	err    error
}

// pull reads the source until it ends, or nobody wants more.
func (m *masked) pull() {
	for {
		select {
		case b := <-m.free:
			n, err := m.src.Read(b)
			select {
			case m.pieces <- piece{b[:n], err}:
			case <-m.closed:
				return
			}
			if err != nil {
				return
			}
		case <-m.closed:
			return
		}
	}
}

// Read implements io.Reader.
func (m *masked) Read(b []byte) (n int, err error) {
	for m.ready == 0 && len(m.out) == 0 {
		switch {
		case m.err != nil:
			return 0, m.err
		case m.pieces == nil:
			m.begin()
		default:
			m.fill()
		}
	}
	if m.frames != nil {
		n = copy(b, m.out)
		m.out = m.out[n:]
		return n, nil
	}
	n = copy(b, m.buf[:m.ready])
	m.buf = m.buf[n:]
	m.ready -= n
	return n, nil
}

// begin reads for the first time: as long as nothing is held back nobody waits for anything else. Most answers are all there
// then.
func (m *masked) begin() {
	b := make([]byte, m.first)
	n, err := m.src.Read(b)
	if err == nil {
		m.pieces, m.free = make(chan piece), make(chan []byte, 1)
		m.free <- make([]byte, pieceBytes)
		go m.pull()
	}
	m.came(piece{b[:n], err})
}

// fill waits for more, or for the pause to be over, and masks what can be given then.
func (m *masked) fill() {
	var late <-chan time.Time
	if len(m.buf) > 0 {
		wait := m.pause
		if m.paused {
			wait = patience
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case p := <-m.pieces:
		m.paused = false
		m.came(p)
		if p.err == nil {
			m.free <- p.b[:cap(p.b)]
		}
	case <-late:
		whole := len(m.buf)
		if !m.paused {
			whole = m.whole()
		}
		m.paused = true
		m.release(whole)
	case <-m.closed:
		m.buf, m.err = nil, io.ErrClosedPipe
	}
}

// whole is how many bytes no form can go on behind: by what lines and messages are, and by nothing that is in them.
func (m *masked) whole() int {
	switch {
	case m.frames != nil && m.frames.whole():
		return len(m.buf)
	case m.frames != nil:
		return 0
	case m.folded:
		return emptyLine(m.buf)
	}
	for end := len(m.buf); ; {
		at := bytes.LastIndexByte(m.buf[:end], '\n')
		if at < 0 {
			return 0
		}
		from := bytes.LastIndexByte(m.buf[:at], '\n') + 1
		if line := bytes.TrimSuffix(m.buf[from:at], []byte("\r")); !encoded.Match(line) || from > 0 && len(line) < leastFold {
			return at + 1
		}
		end = at
	}
}

// leastFold is the shortest line of those that a value is folded into, in base64 or hexadecimal.
const leastFold = 60

// encoded is a line, or the end of one, that such a text may go on behind.
var encoded = regexp.MustCompile(`^[A-Za-z0-9+/=_-]+$`)

// emptyLine is how many bytes there are up to and with the last empty line, which no value has.
func emptyLine(b []byte) int {
	end := []byte("\n\n")
	if i := bytes.LastIndex(b, end); i >= 0 {
		return i + len(end)
	}
	return 0
}

// came takes what a read brought.
func (m *masked) came(p piece) {
	if m.frames != nil {
		if err := m.frames.split(p.b, &m.buf, m.masks); err != nil { // the rest is nothing that could be given
			p.err = err
		}
	} else {
		m.buf = append(m.buf, p.b...)
	}
	if m.err = p.err; m.err == nil {
		m.release(max(0, len(m.buf)-m.longest+1))
		return
	}
	m.ended()
	m.release(len(m.buf))
}

// release masks what begins in the first limit bytes, which can be given then.
func (m *masked) release(limit int) {
	done := m.mask(m.buf, limit)
	if m.frames == nil {
		m.ready = done
		return
	}
	m.out = m.frames.join(m.out, m.buf[:done])
	m.buf = m.buf[done:]
}

// Close implements io.Closer.
func (m *masked) Close() error {
	m.over.Do(func() { close(m.closed) })
	return m.src.Close()
}
