package lend

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"palyra/secrets"
)

// pair is a form of a value and what it is replaced with, which has the same length: what says how long a text is
// stays true.
type pair struct{ what, with []byte }

// masks are the forms of the values that must not come back, the longest first.
type masks struct {
	pairs   []pair
	longest int
}

// masksOf makes them.
func masksOf(loans []secrets.Loan) (m masks) {
	for _, l := range loans {
		_ = l.Value.Use(func(b []byte) error {
			if len(b) < secrets.MinMasked {
				return nil
			}
			stand := make([]byte, len(b))
			for i := range stand {
				stand[i] = l.Placeholder[i%len(l.Placeholder)]
			}
			for _, f := range forms {
				m.add(f(b), f(stand))
			}
			for skip := range 3 { // inside of a longer text in base64
				for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
					m.add(inside(e, b, skip), inside(e, stand, skip))
				}
			}
			return nil
		})
	}
	slices.SortStableFunc(m.pairs, func(a, b pair) int { return cmp.Compare(len(b.what), len(a.what)) })
	return m
}

// forms are how a value is usually written.
var forms = []func([]byte) []byte{
	bytes.Clone, bytes.ToLower, bytes.ToUpper,
	func(b []byte) []byte { return hex.AppendEncode(nil, b) },
	func(b []byte) []byte { return bytes.ToUpper(hex.AppendEncode(nil, b)) },
	func(b []byte) []byte { return []byte(url.QueryEscape(string(b))) },
	func(b []byte) []byte { return []byte(url.PathEscape(string(b))) },
	func(b []byte) []byte { return []byte(strings.ReplaceAll(url.QueryEscape(string(b)), "+", "%20")) },
	func(b []byte) []byte { return lowerPercent([]byte(url.QueryEscape(string(b)))) },
	func(b []byte) []byte { return lowerPercent([]byte(url.PathEscape(string(b)))) },
	func(b []byte) []byte { return lenientPercent.Replace(url.QueryEscape(string(b))) },
	inQuotes,
	func(b []byte) []byte { return bytes.ReplaceAll(inQuotes(b), []byte("/"), []byte(`\/`)) },
	func(b []byte) []byte { return []byte(html.EscapeString(string(b))) },
	func(b []byte) []byte { return wide(b, binary.LittleEndian) },
	func(b []byte) []byte { return wide(b, binary.BigEndian) },
}

// inQuotes is a value as JSON has it, without quotes.
func inQuotes(b []byte) []byte {
	q, err := json.Marshal(string(b))
	if err != nil || len(q) < 2 {
		return nil
	}
	return q[1 : len(q)-1]
}

var percents = regexp.MustCompile(`%[0-9A-F]{2}`)

func lowerPercent(b []byte) []byte { return percents.ReplaceAllFunc(b, bytes.ToLower) }

// lenientPercent leaves what browsers leave.
var lenientPercent = lenient{strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%7E", "~")}

type lenient struct{ *strings.Replacer }

// Replace is that of the Replacer, as bytes.
func (l lenient) Replace(s string) []byte { return []byte(l.Replacer.Replace(s)) }

// wide is a text in UTF-16.
func wide(b []byte, order binary.AppendByteOrder) (out []byte) {
	for _, u := range utf16.Encode([]rune(string(b))) {
		out = order.AppendUint16(out, u)
	}
	return out
}

// inside is the part of a value's base64 that is the same whatever stands before and after it, skip bytes into a group.
func inside(e *base64.Encoding, b []byte, skip int) []byte {
	text := e.EncodeToString(append(make([]byte, skip), b...))
	from := []int{0, 2, 3}[skip]
	to := len(text)
	if (skip+len(b))%3 != 0 {
		to-- // its last character depends on what follows
	}
	return []byte(text[from:to])
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

// pause is how long the end of what came is held back for the rest of a form. What is held back, and how long, follows from
// nothing but how much came and when: otherwise whoever has bytes sent back could try values out, letter by letter.
const pause = 25 * time.Millisecond

// reader masks what is read. When all is read ended is called.
func (m masks) reader(r io.ReadCloser, ended func()) io.ReadCloser {
	if len(m.pairs) == 0 {
		return r
	}
	s := &masked{
		masks: m, src: r, ended: ended, pieces: make(chan piece), free: make(chan []byte, 1), closed: make(chan struct{}),
		buf: make([]byte, 0, pieceBytes+2*m.longest),
	}
	s.free <- make([]byte, pieceBytes)
	return s
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
	begun  bool
	over   sync.Once
	pieces chan piece    // from the source
	free   chan []byte   // the buffer of pieces
	closed chan struct{} // closed when nobody reads any more
	buf    []byte        // read and not given
	ready  int           // bytes of buf that can be given
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
func (m *masked) Read(b []byte) (int, error) {
	if !m.begun {
		m.begun = true
		go m.pull()
	}
	for m.ready == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.fill()
	}
	n := copy(b, m.buf[:m.ready])
	m.buf = m.buf[:copy(m.buf, m.buf[n:])]
	m.ready -= n
	return n, nil
}

// fill waits for more, or for the pause to be over, and masks what can be given then.
func (m *masked) fill() {
	var late <-chan time.Time
	if len(m.buf) > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case p := <-m.pieces:
		m.buf = append(m.buf, p.b...)
		if m.err = p.err; m.err == nil {
			m.free <- p.b[:cap(p.b)]
			m.ready = m.mask(m.buf, max(0, len(m.buf)-m.longest+1))
			return
		}
		m.ended()
	case <-late:
	case <-m.closed:
		m.buf, m.err = nil, io.ErrClosedPipe
		return
	}
	m.ready = m.mask(m.buf, len(m.buf))
}

// Close implements io.Closer.
func (m *masked) Close() error {
	m.over.Do(func() { close(m.closed) })
	return m.src.Close()
}
