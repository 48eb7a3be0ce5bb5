package mask

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// JSON is Bytes of a JSON text: what comes back is one too. Strings are looked at as what they say, however they are
// escaped; a number that has a value in it becomes a string, and a text whose structure itself is a value becomes a
// string that says so. What is no JSON is masked as bytes.
func (m *Masker) JSON(b []byte) []byte {
	if m.current() == nil {
		return b
	}
	out := m.Bytes(b)
	same := len(out) == len(b) && (len(b) == 0 || &out[0] == &b[0])
	if same && !bytes.Contains(b, []byte(`\u`)) && !bytes.Contains(b, []byte(`\/`)) || !json.Valid(b) {
		return out
	}
	if !same && json.Valid(out) && !bytes.ContainsRune(b, '\\') {
		return out
	}
	out = m.tokens(b)
	if found := m.Bytes(out); len(found) == len(out) && &found[0] == &out[0] {
		if bytes.Equal(out, b) {
			return b
		}
		return out
	}
	return []byte(whole) // a value that spans several members
}

// whole stands for a text of which nothing can be shown.
const whole = `"[secret]"`

// tokens masks the strings and numbers of a valid text, one by one.
func (m *Masker) tokens(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		n := 1
		switch c := b[0]; {
		case c == '"':
			for n < len(b) && b[n] != '"' {
				if b[n] == '\\' {
					n++
				}
				n++
			}
			n = min(n+1, len(b))
			out = append(out, m.literal(b[:n])...)
		case c == '-' || '0' <= c && c <= '9':
			for n < len(b) && bytes.IndexByte([]byte("+-.eE0123456789"), b[n]) >= 0 {
				n++
			}
			if number := m.Bytes(b[:n]); !bytes.Equal(number, b[:n]) {
				out = append(append(append(out, '"'), number...), '"')
			} else {
				out = append(out, b[:n]...)
			}
		default:
			out = append(out, c)
		}
		b = b[n:]
	}
	return out
}

// literal masks a string with its quotes; it stays as it is written where it has no value in it.
func (m *Masker) literal(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) { // it stands for itself
		if out := m.Bytes(b); len(out) == len(b) && &out[0] == &b[0] {
			return b
		}
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return b
	}
	if !m.Has(s) {
		if out := m.Bytes(b); json.Valid(out) {
			return out
		}
		return []byte(whole)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(m.String(s)) != nil {
		return []byte(whole)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
