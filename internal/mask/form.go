package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Core is the part of a value that is looked for: a file's last newline is often lost on the way.
func Core(value []byte) []byte {
	if short := bytes.TrimSpace(value); len(short) >= Least {
		return short
	}
	return value
}

// Ways are the ways in which programs write a value, for all that looks for values. A way that a value is not written in
// gives nothing, or another's text.
func Ways() []func(value []byte) []byte { return allWays[:] }

// way is one of a text that has text for its result.
func way(f func(text string) string) func([]byte) []byte {
	return func(value []byte) []byte { return []byte(f(string(value))) }
}

// digits are those of a value, in hexadecimal.
func digits(text string) string { return hex.EncodeToString([]byte(text)) }

// after writes a value in base64 as it stands behind some bytes of a longer text.
func after(e *base64.Encoding, before int) func([]byte) []byte {
	return func(value []byte) []byte { return []byte(inner(e, value, before)) }
}

// folded writes a value in lines of base64.
func folded(width int, end string) func([]byte) []byte {
	return func(value []byte) []byte { return []byte(wrapped(inner(base64.RawStdEncoding, value, 0), width, end)) }
}

var allWays = [...]func([]byte) []byte{
	bytes.Clone, bytes.ToLower, bytes.ToUpper,
	way(digits), way(func(s string) string { return strings.ToUpper(digits(s)) }),
	way(func(s string) string { return wrapped(digits(s), 60, "\n") }),
	after(base64.RawStdEncoding, 0), after(base64.RawStdEncoding, 1), after(base64.RawStdEncoding, 2),
	after(base64.RawURLEncoding, 0), after(base64.RawURLEncoding, 1), after(base64.RawURLEncoding, 2),
	folded(76, "\n"), folded(64, "\n"), folded(76, "\r\n"),
	way(url.QueryEscape), way(url.PathEscape), way(component), way(spaced),
	way(func(s string) string { return lower(url.QueryEscape(s)) }),
	way(func(s string) string { return lower(url.PathEscape(s)) }),
	way(func(s string) string { return lower(component(s)) }),
	way(percentAll), way(func(s string) string { return strings.ToUpper(percentAll(s)) }),
	way(webJSON), way(plainJSON), way(asciiJSON),
	way(func(s string) string { return strings.ReplaceAll(plainJSON(s), "/", `\/`) }),
	way(func(s string) string { return strings.ReplaceAll(webJSON(s), "/", `\/`) }),
	way(func(s string) string { return unquoted(strconv.Quote(s)) }),
	way(func(s string) string { return unquoted(strconv.QuoteToASCII(s)) }),
	way(func(s string) string { return javaJSON.Replace(plainJSON(s)) }),
	way(func(s string) string { return netJSON.Replace(strings.ReplaceAll(s, `\`, `\\`)) }),
	way(func(s string) string { return strings.ReplaceAll(spaced(s), "%2F", "/") }), // quote of Python
	way(html.EscapeString), way(templateHTML.Replace), wide(binary.LittleEndian), wide(binary.BigEndian),
}

// formsOf yields the ways in which a value is written, each once. A value that is too short has none.
func formsOf(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(value) < Least {
			return
		}
		value = Core(value)
		seen := map[string]bool{}
		for _, way := range allWays {
			f := way(value)
			if len(f) < window || seen[string(f)] {
				continue
			}
			if seen[string(f)] = true; !yield(f) {
				return
			}
		}
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

// How libraries of other languages write what others leave as it is: Gson, System.Text.Json, Mustache.
var (
	javaJSON = strings.NewReplacer("=", `\u003d`, "<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "'", `\u0027`)
	netJSON  = strings.NewReplacer("+", `\u002B`, `"`, `\u0022`, "<", `\u003C`, ">", `\u003E`, "&", `\u0026`, "'", `\u0027`, "`", `\u0060`)

	templateHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;",
		"=", "&#x3D;")
)

// component is a value as browsers write it in addresses.
func component(text string) string { return browserLeaves.Replace(url.QueryEscape(text)) }

var browserLeaves = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")

// spaced is a value of a form in an address, with spaces as in its path.
func spaced(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// percentAll is a value whose every byte is escaped.
func percentAll(text string) string {
	var all strings.Builder
	d := digits(text)
	for i := 0; i < len(d); i += 2 {
		all.WriteString("%" + d[i:i+2])
	}
	return all.String()
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

func unquoted(s string) string { return s[1 : len(s)-1] }

// webJSON is a value in a string of JSON, without its quotes, as it is written for pages of the web.
func webJSON(text string) string {
	b, _ := json.Marshal(text) // of a string it does not fail
	return unquoted(string(b))
}

// plainJSON is the same with no more escapes than are needed.
func plainJSON(text string) string {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return unquoted(strings.TrimSuffix(plain.String(), "\n"))
}

// asciiJSON is the same in ASCII.
func asciiJSON(text string) string {
	var ascii strings.Builder
	for _, r := range plainJSON(text) {
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
	return ascii.String()
}

// wide is a text in UTF-16.
func wide(order binary.AppendByteOrder) func([]byte) []byte {
	return func(value []byte) (out []byte) {
		for _, u := range utf16.Encode([]rune(string(value))) {
			out = order.AppendUint16(out, u)
		}
		return out
	}
}
