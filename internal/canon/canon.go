// Package canon gives every JSON value exactly one byte string.
//
// Digests and signatures in Palyra are made over these bytes, never over JSON text, so that two spellings of one
// value have one digest and two values never share one. The form is length-prefixed: there is nothing to escape and
// nothing to guess. docs/formats.md publishes the grammar and test vectors.
//
//	null    z
//	bool    t | f
//	number  n<len>:<normal decimal>
//	string  s<len>:<UTF-8 bytes>
//	list    l<count>:<items>
//	map     m<count>:<key string><value>…   keys in byte order, no repeats
//
// The package refuses what cannot be kept apart: repeated keys, invalid UTF-8, lone surrogates, numbers out of
// range, nesting beyond MaxDepth. It does not know any of Palyra's words.
package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of lists and maps that is accepted.
const MaxDepth = 64

// What a document can lack to have a canonical form. They are in the chain of an error, with the place where it is
// known; a document that does not parse at all has none of them.
var (
	ErrText      = errors.New("canon: invalid UTF-8")
	ErrSurrogate = errors.New("canon: lone surrogate in a string")
	ErrDepth     = fmt.Errorf("canon: nested deeper than %d", MaxDepth)
	ErrRest      = errors.New("canon: data after the JSON value")
	ErrRepeated  = errors.New("canon: a key is repeated")
	ErrNumber    = errors.New("canon: bad number")
	ErrRange     = errors.New("canon: exponent out of range")
)

// Marshal returns the canonical bytes of v's JSON form. Strings that are not UTF-8 are refused: the JSON package
// would write U+FFFD for every bad byte, and two file names would share a digest.
func Marshal(v any) ([]byte, error) { return marshal(v, false) }

// MarshalMended is Marshal that writes U+FFFD for every byte that is not UTF-8, as the JSON package does.
func MarshalMended(v any) ([]byte, error) { return marshal(v, true) }

func marshal(v any, mend bool) ([]byte, error) {
	w := writers.Get().(*writer) //nolint:forcetypeassert // the pool has nothing else
	defer w.release()
	if err := w.value(v, mend); err != nil {
		return nil, err
	}
	return bytes.Clone(w.b), nil
}

// FromJSON returns the canonical bytes of one JSON document.
func FromJSON(raw []byte) ([]byte, error) {
	v, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	return Append(nil, v)
}

// Unmarshal reads canonical bytes into v by way of JSON. It refuses bytes that Append would not have written.
func Unmarshal(b []byte, v any) error {
	val, err := Decode(b)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(val)
	if err != nil {
		return fmt.Errorf("canon: unmarshal: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("canon: unmarshal: %w", err)
	}
	return nil
}

// Digest returns "sha256:<hex>" over the domain, a zero byte and the canonical
// bytes of v. Domains keep a digest of one kind from standing for another.
func Digest(domain string, v any) (string, error) {
	w := writers.Get().(*writer) //nolint:forcetypeassert // the pool has nothing else
	defer w.release()
	if err := w.value(v, false); err != nil {
		return "", err
	}
	return Sum(domain, w.b), nil
}

// Sum is Digest for bytes that are already canonical.
func Sum(domain string, b []byte) string {
	h := sha256.New()
	var name [64]byte
	h.Write(append(append(append(name[:0], "palyra/"...), domain...), 0))
	h.Write(b)
	var sum [sha256.Size]byte
	out := append(make([]byte, 0, len("sha256:")+2*sha256.Size), "sha256:"...)
	return string(hex.AppendEncode(out, h.Sum(sum[:0])))
}

// Append writes the canonical bytes of a value as Parse and Decode return it:
// nil, bool, json.Number, string, []any, map[string]any.
func Append(b []byte, v any) ([]byte, error) { return appendValue(b, v, 0) }

func appendValue(b []byte, v any, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, ErrDepth
	}
	switch v := v.(type) {
	case nil:
		return append(b, 'z'), nil
	case bool:
		if v {
			return append(b, 't'), nil
		}
		return append(b, 'f'), nil
	case json.Number:
		n, err := normal(string(v))
		if err != nil {
			return nil, err
		}
		return appendText(b, 'n', n), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, ErrText
		}
		return appendText(b, 's', v), nil
	case []any:
		return appendList(b, v, depth)
	case map[string]any:
		return appendMap(b, v, depth)
	}
	return nil, fmt.Errorf("canon: cannot encode %T", v)
}

func appendText(b []byte, tag byte, s string) []byte {
	b = appendCount(b, tag, len(s))
	return append(b, s...)
}

func appendCount(b []byte, tag byte, n int) []byte {
	b = append(b, tag)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, ':')
}

func appendList(b []byte, l []any, depth int) ([]byte, error) {
	b = appendCount(b, 'l', len(l))
	var err error
	for _, e := range l {
		if b, err = appendValue(b, e, depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func appendMap(b []byte, m map[string]any, depth int) ([]byte, error) {
	keys := make([]string, 0, len(m))
	for k := range m {
		if !utf8.ValidString(k) {
			return nil, ErrText
		}
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = appendCount(b, 'm', len(m))
	var err error
	for _, k := range keys {
		b = appendText(b, 's', k)
		if b, err = appendValue(b, m[k], depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}
