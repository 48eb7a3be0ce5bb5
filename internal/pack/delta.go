package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

// deltaVersion and lightVersion are the first byte of a text that is packed against a base. The first compressed the
// edits with the dictionary, which takes longer than all the rest of a call; it is only read.
const (
	deltaVersion = 2
	lightVersion = 3
)

// step is the length of the pieces of a base that are looked for in a text.
const step = 16

// sumSize is how much of a base's hash stands with what is packed against it.
const sumSize = 8

// base is a text that others are packed against.
type base struct {
	stream []byte
	sum    []byte
	at     []int32 // where in the stream pieces begin, plus one, by their hashes
	shift  uint
}

func newBase(text []byte) *base {
	sum := sha256.Sum256(text)
	head, raw, tail := split(text)
	return &base{stream: bytes.Join([][]byte{head, raw, tail}, nil), sum: sum[:sumSize]}
}

// index makes a base ready for packing.
func (b *base) index() *base {
	size := bits.Len(uint(len(b.stream)/step)) + 2 // mostly empty
	b.at, b.shift = make([]int32, 1<<size), uint(64-size)
	for i := 0; i+step <= len(b.stream); i += step {
		if at := &b.at[b.hash(b.stream[i:])]; *at == 0 {
			*at = int32(i) + 1
		}
	}
	return b
}

// hash is that of a piece, by its first eight bytes.
func (b *base) hash(s []byte) uint64 {
	return binary.LittleEndian.Uint64(s) * 0x9E3779B97F4A7C15 >> b.shift
}

// pack returns a text as what differs from the base: packed, and without the first
// byte and the number of the base, which are not known yet.
func (b *base) pack(text []byte) []byte {
	head, raw, tail := split(text)
	stream := text
	at := 0
	if raw != nil {
		stream, at = bytes.Join([][]byte{head, raw, tail}, nil), len(head)
	}
	n := append(make([]byte, 0, 256), b.sum...)
	n = binary.AppendUvarint(n, uint64(len(text)))
	n = binary.AppendUvarint(binary.AppendUvarint(n, uint64(at)), uint64(len(raw)))
	return squeeze(n, b.edits(stream))
}

// edits are: a length and as many new bytes, a place in the base and how many bytes
// are taken from there, and so on.
func (b *base) edits(s []byte) []byte {
	out := make([]byte, 0, 512)
	done := 0
	for i := 0; i+step <= len(s); {
		from := int(b.at[b.hash(s[i:])]) - 1
		if from < 0 || !bytes.Equal(b.stream[from:from+step], s[i:i+step]) {
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

// text makes the text of what pack returned, now or, with the first byte of then, in an earlier version.
func (b *base) text(kind byte, packed []byte) ([]byte, error) {
	if len(packed) < sumSize || !bytes.Equal(packed[:sumSize], b.sum) {
		return nil, errBase
	}
	size, at, inner, rest, err := numbers(packed[sumSize:])
	if err != nil {
		return nil, err
	}
	expand := expanded
	if kind == deltaVersion {
		expand = func(b []byte) ([]byte, error) { return inflate(b, 2*most, dictionary) }
	}
	edits, err := expand(rest)
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
