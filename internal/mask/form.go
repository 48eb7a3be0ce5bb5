package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
)

// formsOf yields the ways in which a value is written, each once. A value that is too short has none.
func formsOf(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(value) < Least {
			return
		}
		if short := bytes.TrimSpace(value); len(short) >= Least { // a file's last newline is often lost on the way
			value = short
		}
		seen := map[string]bool{}
		say := func(forms ...string) bool {
			for _, f := range forms {
				if len(f) < window || seen[f] {
					continue
				}
				if seen[f] = true; !yield([]byte(f)) {
					return false
				}
			}
			return true
		}
		text, digits := string(value), hex.EncodeToString(value)
		std, web := base64.RawStdEncoding, base64.RawURLEncoding
		_ = say(text, digits, strings.ToUpper(digits), wrapped(digits, 60, "\n")) &&
			say(inner(std, value, 0), inner(std, value, 1), inner(std, value, 2)) &&
			say(inner(web, value, 0), inner(web, value, 1), inner(web, value, 2)) &&
			say(wrapped(inner(std, value, 0), 76, "\n"), wrapped(inner(std, value, 0), 64, "\n"), wrapped(inner(std, value, 0), 76, "\r\n")) &&
			say(percent(text, digits)...) &&
			say(escaped(text)...)
	}
}

// inner is the part of a value's base64 that is the same whatever stands before and after it, where as many bytes
// precede it as are left over from a group of three.
func inner(e *base64.Encoding, value []byte, before int) string {
	all := e.EncodeToString(append(make([]byte, before, before+len(value)), value...))
	return all[(before*8+5)/6 : (before+len(value))*8/6]
}

// wrapped is a text in lines; the empty text where it is only one.
func wrapped(s string, width int, end string) string {
	if len(s) <= width {
		return ""
	}
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + end)
		s = s[width:]
	}
	return b.String() + s
}

// percent are the ways to write a value in addresses and forms.
func percent(text, digits string) []string {
	query, path := url.QueryEscape(text), url.PathEscape(text)
	var all strings.Builder
	for i := 0; i < len(digits); i += 2 {
		all.WriteString("%" + digits[i:i+2])
	}
	component := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(query)
	return []string{
		query, path, component, strings.ReplaceAll(query, "+", "%20"), lower(query), lower(path), lower(component),
		all.String(), strings.ToUpper(all.String()),
	}
}

// lower is a percent-encoded text with digits in lower case.
func lower(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// escaped are the ways to write a value in a string of JSON or of Go, without its quotes.
func escaped(text string) []string {
	unquoted := func(s string) string { return s[1 : len(s)-1] }
	html, _ := json.Marshal(text) // of a string it does not fail
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	bare := unquoted(strings.TrimSuffix(plain.String(), "\n"))
	var ascii strings.Builder
	for _, r := range bare {
		switch {
		case r < 0x80:
			ascii.WriteRune(r)
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, a, b)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return []string{
		unquoted(string(html)), bare, ascii.String(), strings.ReplaceAll(bare, "/", `\/`), unquoted(strconv.Quote(text)),
		unquoted(strconv.QuoteToASCII(text)),
	}
}
