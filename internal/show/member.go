package show

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"sort"
	"strings"
	"unicode/utf8"
)

// MaxDecoded is how many bytes of an encoded member a short view shows. What is
// longer is for a view that shows everything, and must be said to be.
const MaxDecoded = 64 << 10

// Member is a text of a JSON object that its own spelling does not show: base64, or more lines than one.
type Member struct {
	Name    string
	Data    []byte
	Encoded bool // it was base64
}

// Members lists what stands in the top of a JSON object and is not readable as it stands: strings whose name ends
// in _b64, decoded, and with long set also texts of more than n bytes. What is not base64 although its name says so
// is left out: nobody will read it as that either.
func Members(doc []byte, long bool, n int) []Member {
	if !long && !bytes.Contains(doc, []byte(`_b64"`)) {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(doc, &all) != nil {
		return nil
	}
	var out []Member
	for name, raw := range all {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			continue
		}
		if strings.HasSuffix(name, "_b64") {
			if b, err := base64.StdEncoding.DecodeString(text); err == nil && len(b) > 0 {
				out = append(out, Member{name, b, true})
			}
			continue
		}
		if long && len(text) > n {
			out = append(out, Member{Name: name, Data: []byte(text)})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Opaque reports whether a short view leaves out an encoded text: it is long, and most of it would be escapes.
func Opaque(b []byte) bool {
	return len(b) > MaxDecoded && (!utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0)
}
