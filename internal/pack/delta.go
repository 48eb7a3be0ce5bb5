package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// deltaVersion is the first byte of a text that is packed against a base.
const deltaVersion = 2

// step is the length of the pieces of a base that are looked for in a text.
const step = 16

// sumSize is how much of a base's hash stands with what is packed against it.
const sumSize = 8

// base is a text that others are packed against.
type base struct {
	stream []byte
	sum    []byte
	at     map[[step]byte]int
}

func newBase(text []byte) *base {
	sum := sha256.Sum256(text)
	head, raw, tail := split(text)
	return &base{stream: bytes.Join([][]byte{head, raw, tail}, nil), sum: sum[:sumSize]}
}

// index makes a base ready for packing.
func (b *base) index() *base {
	b.at = make(map[[step]byte]int, len(b.stream)/step)
	for i := 0; i+step <= len(b.stream); i += step {
		if k := [step]byte(b.stream[i:]); b.at[k] == 0 {
			b.at[k] = i + 1
		}
	}
	return b
}

// pack returns a text as what differs from the base: packed, and without the first
// byte and the number of the base, which are not known yet.
func (b *base) pack(text []byte) []byte {
	head, raw, tail := split(text)
	stream := bytes.Join([][]byte{head, raw, tail}, nil)
	n := binary.AppendUvarint(bytes.Clone(b.sum), uint64(len(text)))
	at := len(head)
	if raw == nil {
		at = 0
	}
	n = binary.AppendUvarint(binary.AppendUvarint(n, uint64(at)), uint64(len(raw)))
	return append(n, deflate(b.edits(stream))...)
}

// edits are: a length and as many new bytes, a place in the base and how many bytes
// are taken from there, and so on.
func (b *base) edits(s []byte) (out []byte) {
	done := 0
	for i := 0; i+step <= len(s); {
		from := b.at[[step]byte(s[i:])] - 1
		if from < 0 {
			i++
			continue
		}
		start, n := i, step
		for start > done && from > 0 && s[start-1] == b.stream[from-1] {
			start, from, n = start-1, from-1, n+1
		}
		for start+n < len(s) && from+n < len(b.stream) && s[start+n] == b.stream[from+n] {
			n++
		}
		out = append(binary.AppendUvarint(out, uint64(start-done)), s[done:start]...)
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(from)), uint64(n))
		i, done = start+n, start+n
	}
	return append(binary.AppendUvarint(out, uint64(len(s)-done)), s[done:]...)
}

// text makes the text of what pack returned.
func (b *base) text(packed []byte) ([]byte, error) {
	if len(packed) < sumSize || !bytes.Equal(packed[:sumSize], b.sum) {
		return nil, errBase
	}
	size, at, inner, rest, err := numbers(packed[sumSize:])
	if err != nil {
		return nil, err
	}
	edits, err := inflate(rest, 2*most)
	if err != nil {
		return nil, err
	}
	stream := make([]byte, 0, size)
	for {
		fresh, ok := take(&edits)
		if !ok || fresh > uint64(len(edits)) {
			return nil, errDamaged
		}
		stream, edits = append(stream, edits[:fresh]...), edits[fresh:]
		if len(edits) == 0 {
			break
		}
		from, ok1 := take(&edits)
		n, ok2 := take(&edits)
		if !ok1 || !ok2 || n > most || from > uint64(len(b.stream)) || n > uint64(len(b.stream))-from || len(stream)+int(n) > most {
			return nil, errDamaged
		}
		stream = append(stream, b.stream[from:from+n]...)
	}
	return join(stream, size, at, inner)
}

func take(b *[]byte) (uint64, bool) {
	v, n := binary.Uvarint(*b)
	if n <= 0 {
		return 0, false
	}
	*b = (*b)[n:]
	return v, true
}

// join puts the base64 string back into a stream.
func join(stream []byte, size, at, inner int) ([]byte, error) {
	plain := size
	if inner > 0 {
		plain = size - base64.StdEncoding.EncodedLen(inner) + inner
	}
	if len(stream) != plain || at+inner > len(stream) {
		return nil, errDamaged
	}
	if inner == 0 {
		return stream, nil
	}
	out := append(make([]byte, 0, size), stream[:at]...)
	out = base64.StdEncoding.AppendEncode(out, stream[at:at+inner])
	return append(out, stream[at+inner:]...), nil
}
