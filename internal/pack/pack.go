// Package pack writes JSON texts small, for tables that keep very many alike: the
// documents, outcomes and attestations of calls.
//
// A packed text is the byte 1, three numbers as uvarints, and a raw DEFLATE stream
// with a preset dictionary. The numbers are the length of the text, and where in it
// a string of base64 stands and how many bytes that holds, or twice 0; in the
// stream those bytes stand instead, which are text mostly and base64 would hide.
// What begins with another byte is a text that is not packed, as all were once.
//
// Promises: Text gives back what Pack was given, byte for byte. The dictionary of
// byte 1 never changes; a better one gets another byte.
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

// most bounds what is packed: of a long text the dictionary saves little, and time
// counts.
const most = 256 << 10

//go:embed dictionary.txt
var dictionary []byte

// mark is before the base64 string that is looked for: the payload of an envelope.
var mark = []byte(`"payload":"`)

var writers = sync.Pool{New: func() any {
	w, err := flate.NewWriterDict(io.Discard, flate.DefaultCompression, dictionary)
	if err != nil { // the level is one of the package's own
		return nil
	}
	return w
}}

// Pack returns the packed form of a text, or the text itself where that is not
// shorter.
func Pack(text []byte) []byte {
	if len(text) == 0 || text[0] == version || len(text) > most {
		return text
	}
	head, raw, tail := split(text)
	var out bytes.Buffer
	var n []byte
	n = binary.AppendUvarint(append(n, version), uint64(len(text)))
	if raw == nil {
		n = append(n, 0, 0)
	} else {
		n = binary.AppendUvarint(binary.AppendUvarint(n, uint64(len(head))), uint64(len(raw)))
	}
	out.Write(n)
	w, ok := writers.Get().(*flate.Writer)
	if !ok {
		return text
	}
	defer writers.Put(w)
	w.Reset(&out)
	for _, b := range [][]byte{head, raw, tail} {
		_, _ = w.Write(b) // a buffer takes everything
	}
	if err := w.Close(); err != nil || out.Len() >= len(text) {
		return text
	}
	return out.Bytes()
}

// split finds the base64 string, in its one spelling, and returns what it holds
// with what is before and after it.
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
	raw, err := base64.StdEncoding.Strict().DecodeString(string(text[i : i+n]))
	if err != nil || len(raw) == 0 || base64.StdEncoding.EncodeToString(raw) != string(text[i:i+n]) {
		return text, nil, nil
	}
	return text[:i], raw, text[i+n:]
}

// Text returns the text of what Pack returned.
func Text(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != version {
		return b, nil
	}
	rest := b[1:]
	var numbers [3]uint64
	for i := range numbers {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > most {
			return nil, errors.New("pack: the text is damaged")
		}
		numbers[i], rest = v, rest[n:]
	}
	size, at, inner := int(numbers[0]), int(numbers[1]), int(numbers[2])
	plain := size // of the stream
	if inner > 0 {
		plain = size - base64.StdEncoding.EncodedLen(inner) + inner
	}
	in := bytes.NewReader(rest)
	stream, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(in, dictionary), most+1))
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if len(stream) != plain || at+inner > len(stream) || in.Len() > 0 {
		return nil, errors.New("pack: the text is damaged")
	}
	if inner == 0 {
		return stream, nil
	}
	out := append(make([]byte, 0, size), stream[:at]...)
	out = base64.StdEncoding.AppendEncode(out, stream[at:at+inner])
	return append(out, stream[at+inner:]...), nil
}
