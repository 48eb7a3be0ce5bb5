package egress

import (
	"encoding/binary"
	"errors"
)

// hello is the relevant part of a TLS ClientHello.
type hello struct {
	names  int    // how many names it gives
	name   string // the only one, unchanged
	hidden bool   // the real name may be another, encrypted one
}

var (
	errMore     = errors.New("egress: more bytes are needed")
	errBadHello = errors.New("egress: not a TLS ClientHello")
)

// Numbers of TLS: record types, the handshake messages and the extensions that matter here.
const (
	recordCipher    = 20
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
	recordMajor     = 3
	recordHead      = 5
	maxRecord       = 1<<14 + 256
	maxRecords      = 64 // of one ClientHello

	clientHello = 1
	serverHello = 2

	extServerName = 0
	extECH        = 0xfe0d
	extESNI       = 0xffce // the draft before it
)

// record splits off the TLS record at the beginning of b.
func record(b []byte) (kind byte, body []byte, err error) {
	if len(b) < recordHead {
		return 0, nil, errMore
	}
	n := int(binary.BigEndian.Uint16(b[3:]))
	if b[1] != recordMajor || n == 0 || n > maxRecord {
		return 0, nil, errBadHello
	}
	if len(b) < recordHead+n {
		return b[0], nil, errMore
	}
	return b[0], b[recordHead : recordHead+n], nil
}

// parseHello reads a ClientHello, in as many records as it came, and returns their size. Nothing
// else may be in these records.
func parseHello(b []byte) (h hello, size int, err error) {
	var message []byte
	for range maxRecords {
		kind, body, err := record(b[size:])
		if err != nil {
			return hello{}, 0, err
		}
		if kind != recordHandshake {
			return hello{}, 0, errBadHello
		}
		size += recordHead + len(body)
		message = append(message, body...)
		if message[0] != clientHello {
			return hello{}, 0, errBadHello
		}
		if len(message) < 4 {
			continue
		}
		switch want := 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3]); {
		case want > bufferSize:
			return hello{}, 0, errTooLong
		case len(message) > want:
			return hello{}, 0, errBadHello
		case len(message) == want:
			if h, err = parseHelloBody(message[4:]); err != nil {
				return hello{}, 0, err
			}
			return h, size, nil
		}
	}
	return hello{}, 0, errBadHello
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

func parseHelloBody(b []byte) (hello, error) {
	c := cursor{b: b}
	c.take(2 + 32) // version, random
	c.vector(1)    // session
	c.vector(2)    // cipher suites
	c.vector(1)    // compression
	if c.bad {
		return hello{}, errBadHello
	}
	if len(c.b) == 0 { // an old one, without extensions
		return hello{}, nil
	}
	list := c.vector(2)
	if c.bad || len(c.b) > 0 {
		return hello{}, errBadHello
	}
	return parseExtensions(list)
}

// parseExtensions reads the extensions. It refuses one that occurs twice, because two readers could
// take different ones.
func parseExtensions(list cursor) (hello, error) {
	var h hello
	seen := map[int]bool{}
	for len(list.b) > 0 {
		kind := list.number(2)
		body := list.vector(2)
		if list.bad || seen[kind] {
			return hello{}, errBadHello
		}
		seen[kind] = true
		switch kind {
		case extECH, extESNI:
			h.hidden = true
		case extServerName:
			if !h.readNames(body) {
				return hello{}, errBadHello
			}
		}
	}
	return h, nil
}

// readNames reads the list of server names, which must hold exactly one host.
func (h *hello) readNames(c cursor) bool {
	list := c.vector(2)
	kind, name := list.number(1), list.vector(2)
	if list.bad || len(c.b) > 0 || len(list.b) > 0 || kind != 0 || len(name.b) == 0 || len(name.b) > maxName+1 {
		return false
	}
	h.names, h.name = 1, string(name.b)
	return true
}

// retryRandom is the random value of a ServerHello that asks for a second ClientHello (RFC 8446, 4.1.3).
const retryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// asksAgain reports whether a server's first bytes ask for a second ClientHello; known is false as
// long as that cannot be told.
func asksAgain(b []byte) (again, known bool) {
	const random = recordHead + 4 + 2
	for i, want := range []byte{recordHandshake, recordMajor} {
		if len(b) > i && b[i] != want {
			return false, true
		}
	}
	if len(b) > recordHead && b[recordHead] != serverHello {
		return false, true
	}
	if len(b) < random+len(retryRandom) {
		return false, false
	}
	return string(b[random:random+len(retryRandom)]) == retryRandom, true
}
