package journal

import (
	"bytes"
	"encoding/json"
	"strings"

	"palyra/internal/canon"
)

// The JSON forms of everything that leaves the journal. A value has one canonical text: keys in byte order,
// no white space, escapes as encoding/json makes them without those for HTML.

// jsonText returns the canonical text of canonical bytes. It writes what canon.JSON
// would write for the value, without making the value.
func jsonText(b []byte) ([]byte, error) {
	p := printer{walker: walker{b: b}, out: make([]byte, 0, len(b)+len(b)/4)}
	if !p.value(0) || p.i != len(b) {
		return nil, errForm
	}
	return p.out, nil
}

// printer walks canonical bytes and writes JSON.
type printer struct {
	walker
	out []byte
}

var words = map[byte]string{'z': "null", 't': "true", 'f': "false"}

func (p *printer) value(depth int) bool {
	if depth > canon.MaxDepth || p.i >= len(p.b) {
		return false
	}
	var s []byte
	switch tag := p.b[p.i]; tag {
	case 'z', 't', 'f':
		p.i++
		p.out = append(p.out, words[tag]...)
		return true
	case 'n':
		ok := p.text('n', &s) && normal(s)
		p.out = append(p.out, s...)
		return ok
	case 's':
		ok := p.text('s', &s)
		p.out = appendJSONString(p.out, s)
		return ok
	case 'l':
		return p.items(depth, "[]", false)
	case 'm':
		return p.items(depth, "{}", true)
	}
	return false
}

func (p *printer) items(depth int, brackets string, keyed bool) bool {
	p.i++
	p.out = append(p.out, brackets[0])
	n, ok := p.count()
	var last []byte
	for i := 0; ok && i < n; i++ {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		if keyed {
			var k []byte
			if !p.text('s', &k) || (i > 0 && string(k) <= string(last)) {
				return false
			}
			p.out = append(appendJSONString(p.out, k), ':')
			last = k
		}
		ok = p.value(depth + 1)
	}
	p.out = append(p.out, brackets[1])
	return ok
}

// appendJSONString writes valid UTF-8 as encoding/json does without HTML escapes.
func appendJSONString(out, s []byte) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < 0x20:
			out = appendControl(out, c)
		case c == 0xE2 && i+2 < len(s) && s[i+1] == 0x80 && s[i+2]&^1 == 0xA8: // U+2028, U+2029
			out = append(out, '\\', 'u', '2', '0', '2', '8'+s[i+2]&1)
			i += 2
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

func appendControl(out []byte, c byte) []byte {
	if i := strings.IndexByte("\b\f\n\r\t", c); i >= 0 {
		return append(out, '\\', "bfnrt"[i])
	}
	const hex = "0123456789abcdef"
	return append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// canonical returns the canonical text of any value that has a JSON form.
func canonical(v any) ([]byte, error) {
	b, err := canon.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonText(b)
}

func unmarshalStrict(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	return dec.Decode(v)
}

// hasExactly reports whether the keys of m are the given ones, in their one
// spelling: encoding/json would take others for them.
func hasExactly(m map[string]any, keys ...string) bool {
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			return false
		}
	}
	return len(m) == len(keys)
}
