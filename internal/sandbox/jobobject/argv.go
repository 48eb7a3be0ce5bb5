package jobobject

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"palyra"
)

// maxCommand is the system's limit, in UTF-16 units with the zero at the end.
const maxCommand = 32_767

// compose writes a command line from which CommandLineToArgvW, and with it the usual C runtimes, make these
// arguments again. The first is read by other rules than the rest: it can have no quotes.
func compose(argv []string) (string, error) {
	bad := func(why string) (string, error) {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the arguments cannot be given to a program on Windows: %s", why)
	}
	if len(argv) == 0 || argv[0] == "" {
		return bad("the program has no name")
	}
	var b strings.Builder
	for i, a := range argv {
		switch {
		case strings.ContainsRune(a, 0) || !utf8.ValidString(a):
			return bad("one is not text, or has a zero in it")
		case i == 0 && strings.Contains(a, `"`):
			return bad("the program's name has quotes in it")
		case i == 0:
			b.WriteString(`"` + a + `"`)
		default:
			b.WriteByte(' ')
			quote(&b, a)
		}
	}
	if len(utf16.Encode([]rune(b.String())))+1 > maxCommand {
		return bad("they are too long together")
	}
	return b.String(), nil
}

// quote writes one argument. Backslashes mean themselves, except before a quote: there two stand for one.
func quote(b *strings.Builder, a string) {
	if a != "" && !strings.ContainsAny(a, " \t\n\v\"") {
		b.WriteString(a)
		return
	}
	b.WriteByte('"')
	slashes := 0
	for i := range len(a) {
		switch c := a[i]; c {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1)) // those before it doubled, and one for the quote
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteByte(a[i])
	}
	b.WriteString(strings.Repeat(`\`, slashes))
	b.WriteByte('"')
}
