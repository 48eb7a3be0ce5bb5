package lend

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"palyra/secrets"
)

// pair is a form of a value and what it is replaced with, which has the same length: what says how long a text is
// stays true.
type pair struct{ what, with []byte }

// masks are the forms of the values that must not come back from a host.
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
	return m
}

// forms are how a value is usually written.
var forms = []func([]byte) []byte{
	bytes.Clone,
	func(b []byte) []byte { return hex.AppendEncode(nil, b) },
	func(b []byte) []byte { return bytes.ToUpper(hex.AppendEncode(nil, b)) },
	func(b []byte) []byte { return []byte(url.QueryEscape(string(b))) },
	func(b []byte) []byte { return []byte(url.PathEscape(string(b))) },
	func(b []byte) []byte {
		q, err := json.Marshal(string(b))
		if err != nil || len(q) < 2 {
			return nil
		}
		return q[1 : len(q)-1]
	},
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

// bytes masks in place.
func (m masks) bytes(b []byte) {
	for _, p := range m.pairs {
		for rest := b; ; {
			i := bytes.Index(rest, p.what)
			if i < 0 {
				break
			}
			copy(rest[i:], p.with)
			rest = rest[i+len(p.with):]
		}
	}
}

func (m masks) text(s string) string {
	b := []byte(s)
	m.bytes(b)
	return string(b)
}

// head masks a response's head.
func (m masks) head(h http.Header) {
	for _, values := range h {
		for i, v := range values {
			values[i] = m.text(v)
		}
	}
}

// reader masks what is read. A form that comes in pieces is held back until it is whole, unless nothing more has come:
// then what is there goes on, but for the part that could be the beginning of one.
// When all is read ended is called.
func (m masks) reader(r io.ReadCloser, ended func()) io.ReadCloser {
	if len(m.pairs) == 0 {
		return r
	}
	return &masked{ReadCloser: r, masks: m, ended: ended, buf: make([]byte, 0, 32<<10+m.longest)}
}

type masked struct {
	io.ReadCloser
	masks
	buf   []byte // read and not given
	ready int    // bytes of buf that can be given
	ended func()
	err   error
}

// Read implements io.Reader.
func (m *masked) Read(b []byte) (int, error) {
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

func (m *masked) fill() {
	n, err := m.ReadCloser.Read(m.buf[len(m.buf):cap(m.buf)])
	m.buf = m.buf[:len(m.buf)+n]
	m.err = err
	m.bytes(m.buf)
	m.ready = len(m.buf)
	if err == nil {
		m.ready -= m.begun()
	} else {
		m.ended()
	}
}

// begun is how many bytes at the end could begin a form.
func (m *masked) begun() (most int) {
	for _, p := range m.pairs {
		for n := min(len(p.what)-1, len(m.buf)); n > most; n-- {
			if bytes.HasSuffix(m.buf, p.what[:n]) {
				most = n
				break
			}
		}
	}
	return most
}
