package jobobject

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// split reads a command line by the documented rules of CommandLineToArgvW,
// written down here a second time and from the other end.
func split(line string) []string {
	first, rest := program(line)
	argv := []string{first}
	for {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			return argv
		}
		var arg string
		arg, rest = argument(rest)
		argv = append(argv, arg)
	}
}

// program reads the first argument: up to the next quote when it begins with one,
// else up to a blank. Backslashes mean nothing.
func program(line string) (string, string) {
	if rest, ok := strings.CutPrefix(line, `"`); ok {
		name, rest, _ := strings.Cut(rest, `"`)
		return name, rest
	}
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], line[i:]
	}
	return line, ""
}

// argument reads one of the others. 2n backslashes and a quote are n of them and a
// quote that opens or closes; 2n+1 are n and a quote itself; in quotes two quotes
// are one itself.
func argument(line string) (string, string) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(line); {
		slashes := 0
		for i < len(line) && line[i] == '\\' {
			slashes, i = slashes+1, i+1
		}
		if i == len(line) || line[i] != '"' {
			b.WriteString(strings.Repeat(`\`, slashes))
			if i == len(line) {
				break
			}
			if !quoted && (line[i] == ' ' || line[i] == '\t') {
				return b.String(), line[i:]
			}
			b.WriteByte(line[i])
			i++
			continue
		}
		b.WriteString(strings.Repeat(`\`, slashes/2))
		switch {
		case slashes%2 == 1:
			b.WriteByte('"')
		case quoted && strings.HasPrefix(line[i+1:], `"`):
			b.WriteByte('"')
			i++
		default:
			quoted = !quoted
		}
		i++
	}
	return b.String(), ""
}

func TestSplitKnowsTheRules(t *testing.T) {
	for line, want := range map[string][]string{
		`prog "a b c" d e`:     {"prog", "a b c", "d", "e"},
		`prog "ab\"c" "\\" d`:  {"prog", `ab"c`, `\`, "d"},
		`prog a\\\b d"e f"g h`: {"prog", `a\\\b`, "de fg", "h"},
		`prog a\\\"b c d`:      {"prog", `a\"b`, "c", "d"},
		`prog a\\\\"b c" d e`:  {"prog", `a\\b c`, "d", "e"},
		`"C:\x y\p.exe" ""`:    {`C:\x y\p.exe`, ""},
		`C:\p.exe "a""b c"`:    {`C:\p.exe`, `a"b c`},
		`"C:\back\\" x`:        {`C:\back\\`, "x"},
	} {
		if got := split(line); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", line, got, want)
		}
	}
}

func roundTrip(t testing.TB, argv []string) {
	t.Helper()
	line, err := compose(argv)
	fine := argv[0] != "" && !strings.Contains(argv[0], `"`)
	for _, a := range argv {
		fine = fine && utf8.ValidString(a) && !strings.ContainsRune(a, 0)
	}
	if (err == nil) != fine && !strings.Contains(err.Error(), "too long") {
		t.Fatalf("%q: %v", argv, err)
	}
	if err == nil && !slices.Equal(split(line), argv) {
		t.Errorf("%q became %s, which is %q", argv, line, split(line))
	}
}

func TestArgumentsArrive(t *testing.T) {
	for _, argv := range [][]string{
		{"p"},
		{"p", ""},
		{"p", "", ""},
		{
			`C:\Program Files\p.exe`, `a\`, `a b\`, `\"`, `"`, `""`, `\\`, `\\"`, "a\tb", "a\nb", "a\vb", "&|<>^%PATH%!x!", "'", "*", "?",
			`\\server\share\`,
		},
		{`p\`, "x"},
		{"p", strings.Repeat(`\`, 31) + `"`},
		{"é", "日本 語", "😀"},
	} {
		roundTrip(t, argv)
	}
	rapid.Check(t, func(r *rapid.T) {
		arg := rapid.Custom(func(r *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{`\`, `"`, " ", "\t", "a", "é", "%", "^", "\n"}), 0, 8).Draw(r, "arg"), "")
		})
		roundTrip(t, append([]string{"p"}, rapid.SliceOfN(arg, 0, 5).Draw(r, "argv")...))
	})
}

func TestBadArguments(t *testing.T) {
	for name, argv := range map[string][]string{
		"none": nil, "no name": {""}, "quotes in the name": {`a"b`}, "zero": {"p", "a\x00b"}, "no text": {"p", "\xff"},
		"too long":          {"p", strings.Repeat("a", maxCommand)},
		"too long in units": {"p", strings.Repeat("😀", maxCommand/2)},
	} {
		if line, err := compose(argv); err == nil {
			t.Errorf("%s: %s", name, line)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("p", `a\"b c`, `\\`)
	f.Add(`C:\a b`, "", `"`)
	f.Add("p", "\xff", "\x00")
	f.Fuzz(func(t *testing.T, name, a, b string) { roundTrip(t, []string{name, a, b}) })
}
