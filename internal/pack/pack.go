// Package pack writes JSON texts small, for tables that keep very many alike: the
// documents, outcomes and attestations of calls.
//
// A packed text is the byte 1, three numbers as uvarints, and a raw DEFLATE stream with a preset dictionary. The
// numbers are the length of the text, and where in it a string of base64 stands and how many bytes that holds, or
// twice 0; in the stream those bytes stand instead, which are text mostly and base64 would hide. What begins with
// another byte is a text that is not packed, as all were once.
//
// Texts of calls that are alike are packed against one that is kept beside them, the base: byte 3, the base's number,
// eight bytes of its SHA-256, the three numbers, and the edits that make the one from the other, with hex digits as
// bytes where they are few and compressed without a dictionary where they are many: this is done while a call waits.
// Byte 2 is the form of earlier versions, with edits compressed by the dictionary. See Shelf.
//
// Lines of the journal have a form of their own, see Line.
//
// Promises: what was packed comes back byte for byte. The dictionary and the words
// never change; better ones get another first byte.
package pack

import (
	"bytes"
	"compress/flate"
	_ "embed" // the dictionary
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// version is the first byte of a packed text.
const version = 1

// most bounds what is packed: of a long text the dictionary saves little, and time counts.
const most = 256 << 10

//go:embed dictionary.txt
var dictionary []byte

// mark is before the base64 string that is looked for: the payload of an envelope.
var mark = []byte(`"payload":"`)

var (
	errDamaged = errors.New("pack: the text is damaged")
	errBase    = errors.New("pack: the text that this one is packed against is not the one it was")
)

var writers = sync.Pool{New: func() any {
	w, _ := flate.NewWriterDict(io.Discard, flate.DefaultCompression, dictionary) // fails for a level that is none
	return w
}}

// Pack returns the packed form of a text, or the text itself where that is not shorter.
func Pack(text []byte) []byte {
	if len(text) == 0 || packed(text) || len(text) > most {
		return text
	}
	head, raw, tail := split(text)
	out := binary.AppendUvarint([]byte{version}, uint64(len(text)))
	if raw == nil {
		out = append(out, 0, 0)
	} else {
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(len(head))), uint64(len(raw)))
	}
	pool := &writers
	if len(text) > longText<<5 { // the dictionary would save nothing
		pool = &quick
	}
	out = append(out, deflate(pool, head, raw, tail)...)
	if len(out) >= len(text) {
		return text
	}
	return out
}

// packed reports whether a text looks like a packed one.
func packed(text []byte) bool {
	return len(text) > 0 && (text[0] == version || text[0] == deltaVersion || text[0] == lightVersion)
}

// deflate compresses parts of a text as one.
func deflate(pool *sync.Pool, parts ...[]byte) []byte {
	w := pool.Get().(*flate.Writer) //nolint:forcetypeassert // the pool has nothing else
	defer pool.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	for _, b := range parts {
		_, _ = w.Write(b) // a buffer takes everything
	}
	_ = w.Close()
	return out.Bytes()
}

// inflate undoes deflate, up to a length.
func inflate(b []byte, limit int64, dictionary []byte) ([]byte, error) {
	in := bytes.NewReader(b)
	text, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(in, dictionary), limit+1))
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if int64(len(text)) > limit || in.Len() > 0 {
		return nil, errDamaged
	}
	return text, nil
}

// split finds the base64 string, in its one spelling, and returns what it holds with what is before and after it.
func split(text []byte) (head, raw, tail []byte) {
	i := bytes.Index(text, mark)
	if i < 0 {
		return text, nil, nil
	}
	i += len(mark)
	n := bytes.IndexByte(text[i:], '"')
	if n <= 0 {
		return text, nil, nil
	}
	if bytes.ContainsAny(text[i:i+n], "\r\n") { // the decoder passes over them
		return text, nil, nil
	}
	raw, err := base64.StdEncoding.Strict().AppendDecode(nil, text[i:i+n])
	if err != nil || len(raw) == 0 || base64.StdEncoding.EncodedLen(len(raw)) != n {
		return text, nil, nil
	}
	return text[:i], raw, text[i+n:]
}

// Text returns the text of what Pack returned.
func Text(b []byte) ([]byte, error) {
	if !packed(b) {
		return b, nil
	}
	if b[0] != version {
		return nil, errBase
	}
	size, at, inner, rest, err := numbers(b[1:])
	if err != nil {
		return nil, err
	}
	stream, err := inflate(rest, most, dictionary)
	if err != nil {
		return nil, err
	}
	return join(stream, size, at, inner)
}

// numbers reads the length of a text, and where its base64 string stands and how many bytes that holds.
func numbers(b []byte) (size, at, inner int, rest []byte, err error) {
	var n [3]uint64
	for i := range n {
		v, ok := take(&b)
		if !ok || v > most {
			return 0, 0, 0, nil, errDamaged
		}
		n[i] = v
	}
	return int(n[0]), int(n[1]), int(n[2]), b, nil
}
