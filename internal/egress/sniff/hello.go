package sniff

import (
	"encoding/binary"
	"errors"
)

// Hello is the relevant part of a TLS ClientHello.
type Hello struct {
	Names  int    // how many names it gives
	Name   string // the only one, unchanged
	Hidden bool   // the real name may be another, encrypted one
}

// Why a ClientHello cannot be read.
var (
	ErrMore     = errors.New("egress: more bytes are needed")
	ErrBadHello = errors.New("egress: not a TLS ClientHello")
	ErrTooLong  = errors.New("egress: too long")
)

// Numbers of TLS: record types, the handshake messages and the extensions that matter here.
const (
	RecordCipher    = 20
	RecordAlert     = 21
	RecordHandshake = 22
	RecordData      = 23
	RecordMajor     = 3
	RecordHead      = 5
	maxRecord       = 1<<14 + 256
	maxRecords      = 64 // of one ClientHello

	clientHello = 1
	serverHello = 2

	ExtServerName = 0
	ExtECH        = 0xfe0d
	extESNI       = 0xffce // the draft before it
)

// Record splits off the TLS record at the beginning of b.
func Record(b []byte) (kind byte, body []byte, err error) {
	if len(b) < RecordHead {
		return 0, nil, ErrMore
	}
	n := int(binary.BigEndian.Uint16(b[3:]))
	if b[1] != RecordMajor || n == 0 || n > maxRecord {
		return 0, nil, ErrBadHello
	}
	if len(b) < RecordHead+n {
		return b[0], nil, ErrMore
	}
	return b[0], b[RecordHead : RecordHead+n], nil
}

// ParseHello reads a ClientHello, in as many records as it came, and returns their size. Nothing
// else may be in these records.
func ParseHello(b []byte) (h Hello, size int, err error) {
	var message []byte
	for range maxRecords {
		kind, body, err := Record(b[size:])
		if err != nil {
			return Hello{}, 0, err
		}
		if kind != RecordHandshake {
			return Hello{}, 0, ErrBadHello
		}
		size += RecordHead + len(body)
		message = append(message, body...)
		if message[0] != clientHello {
			return Hello{}, 0, ErrBadHello
		}
		if len(message) < 4 {
			continue
		}
		switch want := 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3]); {
		case want > Most:
			return Hello{}, 0, ErrTooLong
		case len(message) > want:
			return Hello{}, 0, ErrBadHello
		case len(message) == want:
			if h, err = parseHelloBody(message[4:]); err != nil {
				return Hello{}, 0, err
			}
			return h, size, nil
		}
	}
	return Hello{}, 0, ErrBadHello
}

// cursor reads the vectors that TLS is made of. After reading past the end it is bad, and
// everything it returns is empty.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || len(c.b) < n {
		c.bad = true
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) number(bytes int) int {
	n := 0
	for _, b := range c.take(bytes) {
		n = n<<8 | int(b)
	}
	return n
}

// vector reads a vector whose length is in the given number of bytes.
func (c *cursor) vector(bytes int) cursor {
	n := c.number(bytes)
	b := c.take(n)
	return cursor{b, c.bad}
}

func parseHelloBody(b []byte) (Hello, error) {
	c := cursor{b: b}
	c.take(2 + 32) // version, random
	c.vector(1)    // session
	c.vector(2)    // cipher suites
	c.vector(1)    // compression
	if c.bad {
		return Hello{}, ErrBadHello
	}
	if len(c.b) == 0 { // an old one, without extensions
		return Hello{}, nil
	}
	list := c.vector(2)
	if c.bad || len(c.b) > 0 {
		return Hello{}, ErrBadHello
	}
	return parseExtensions(list)
}

// parseExtensions reads the extensions. It refuses one that occurs twice, because two readers could
// take different ones.
func parseExtensions(list cursor) (Hello, error) {
	var h Hello
	seen := map[int]bool{}
	for len(list.b) > 0 {
		kind := list.number(2)
		body := list.vector(2)
		if list.bad || seen[kind] {
			return Hello{}, ErrBadHello
		}
		seen[kind] = true
		switch kind {
		case ExtECH, extESNI:
			h.Hidden = true
		case ExtServerName:
			if !h.readNames(body) {
				return Hello{}, ErrBadHello
			}
		}
	}
	return h, nil
}

// readNames reads the list of server names, which must hold exactly one host.
func (h *Hello) readNames(c cursor) bool {
	list := c.vector(2)
	kind, name := list.number(1), list.vector(2)
	if list.bad || len(c.b) > 0 || len(list.b) > 0 || kind != 0 || len(name.b) == 0 || len(name.b) > MaxName+1 {
		return false
	}
	h.Names, h.Name = 1, string(name.b)
	return true
}

// RetryRandom is the random value of a ServerHello that asks for a second ClientHello (RFC 8446, 4.1.3).
const RetryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// AsksAgain reports whether a server's first bytes ask for a second ClientHello; known is false as
// long as that cannot be told.
func AsksAgain(b []byte) (again, known bool) {
	const random = RecordHead + 4 + 2
	for i, want := range []byte{RecordHandshake, RecordMajor} {
		if len(b) > i && b[i] != want {
			return false, true
		}
	}
	if len(b) > RecordHead && b[RecordHead] != serverHello {
		return false, true
	}
	if len(b) < random+len(RetryRandom) {
		return false, false
	}
	return string(b[random:random+len(RetryRandom)]) == RetryRandom, true
}
