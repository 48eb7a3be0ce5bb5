package show

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "write a.txt", "write a.txt"},
		{"empty", "", ""},
		{"clear screen", "a\x1b[2Jb", `a\x1b[2Jb`},
		{"one-byte CSI", "a\u009b2Jb", `a\u{9b}2Jb`},
		{"title string", "\x1b]0;root\x07", `\x1b]0;root\x07`},
		{"carriage return", "rm -rf /\rls", `rm -rf /\rls`},
		{"newline and tab", "a\nb\tc", `a\nb\tc`},
		{"backspace, delete, NUL", "a\x08\x7f\x00", `a\x08\x7f\x00`},
		{"right-to-left override", "a\u202egnp.exe", `a\u{202e}gnp.exe`},
		{"isolates", "\u2066x\u2069", `\u{2066}x\u{2069}`},
		{"marks of direction", "\u200e\u200f\u061c", `\u{200e}\u{200f}\u{61c}`},
		{"zero width", "ad\u200bmin\u200c\u200d\u2060\ufeff", `ad\u{200b}min\u{200c}\u{200d}\u{2060}\u{feff}`},
		{"soft hyphen", "pass\u00adword", `pass\u{ad}word`},
		{"tag characters", "x\U000e0041\U000e007f", `x\u{e0041}\u{e007f}`},
		{"variation selectors", "x\ufe0f\U000e0100", `x\u{fe0f}\u{e0100}`},
		{"hangul fillers", "\u3164\u115f\uffa0", `\u{3164}\u{115f}\u{ffa0}`},
		{"braille blank", "a\u2800b", `a\u{2800}b`},
		{"spaces", "a\u00a0b\u2003c\u3000d\u2028e", `a\u{a0}b\u{2003}c\u{3000}d\u{2028}e`},
		{"private use and unassigned", "\ue000\U0003ffff", `\u{e000}\u{3ffff}`},
		{"not UTF-8", "a\xff\xc3b", `a\xff\xc3b`},
		{"surrogate bytes", "\xed\xa0\x80", `\xed\xa0\x80`},
		{"overlong", "\xc0\xaf", `\xc0\xaf`},
		{"accent as a mark", "cafe\u0301", `cafe\u{301}`},
		{"accent as a letter", "café Ångström żółć", "café Ångström żółć"},
		{"overlay", "=\u0338", `=\u{338}`},
		{"piled marks", "\u0915\u094d\u093e\u0902\u0903", "\u0915\u094d\u093e\u0902" + `\u{903}`},
		{"script with marks", "हिन्दी ภาษาไทย", "हिन्दी ภาษาไทย"},
		{"han, kana, hangul", "文件 ファイル 파일", "文件 ファイル 파일"},
		{"russian", "привет, мир", "привет, мир"},
		{"greek", "γεια σου Κόσμε", "γεια σου Κόσμε"},
		{"latin with a cyrillic letter", "p\u0430ypal", `p\u{430}ypal`},
		{"latin with a greek letter", "g\u03bf\u03bfgle", `g\u{3bf}\u{3bf}gle`},
		{"latin with armenian", "g\u0585ogle", `g\u{585}ogle`},
		{"cyrillic that passes for latin", "\u0440\u0430\u0443", `\u{440}\u{430}\u{443}`},
		{"mixed in one word of several", "make и Mакe", "make и M" + `\u{430}\u{43a}` + "e"},
		{"wide letters", "ｒｍ", `\u{ff52}\u{ff4d}`},
		{"mathematical letters", "𝐫𝐦", `\u{1d42b}\u{1d426}`},
		{"kelvin sign", "\u212a", `\u{212a}`},
		{"script g", "\u0261it", `\u{261}it`},
		{"slashes", "etc\u2215passwd\u2044x", `etc\u{2215}passwd\u{2044}x`},
		{"greek question mark", "a\u037e", `a\u{37e}`},
		{"hyphen", "\u2010rf \u2212x", `\u{2010}rf \u{2212}x`},
		{"bengali four looks like eight", "10.0.0.\u09ea", `10.0.0.\u{9ea}`},
		{"cherokee", "\u13aa\u13a0", `\u{13aa}\u{13a0}`},
		{"hebrew", "\u05d0\u05d1", `\u{5d0}\u{5d1}`},
		{"punctuation of prose", "“so” – yes 5 €", "“so” – yes 5 €"},
		{"own signs", "⇥⋯", `\u{21e5}\u{22ef}`},
		{"signs of a frame", "│┆…—→✓✗├─", `\u{2502}\u{2506}\u{2026}\u{2014}\u{2192}\u{2713}\u{2717}\u{251c}\u{2500}`},
		{"blanks", "a" + strings.Repeat(" ", 4000) + "; rm -rf ~", "a⋯ 4000 blanks ⋯; rm -rf ~"},
		{"a few blanks", "a" + strings.Repeat(" ", 63) + "b", "a" + strings.Repeat(" ", 63) + "b"},
		{"replacement character", "\ufffd", `\u{fffd}`},
		{"backslash alone", `C:\dir\d+`, `C:\dir\d+`},
		{"backslash that reads as an escape", `\x1b \u{202e} \n`, `\\x1b \\u{202e} \\n`},
		{"backslash before an escape", "\\\x1b", `\\\x1b`},
		{"two backslashes", `a\\b`, `a\\\b`},
		{"backslash at the end", `a\`, `a\`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Line(c.in); got != c.want {
				t.Errorf("Line(%q)\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func TestBlock(t *testing.T) {
	in := "+a\tb\r\n-\x1b[31m\n \\n \u05d0 \u202e\n"
	want := "+a⇥ b\\x0d\n-\\x1b[31m\n \\n \u05d0 \\u{202e}\n"
	if got := Block(in); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestArgv(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, ""},
		{[]string{""}, `""`},
		{[]string{"rm", "-rf", "a b"}, `rm -rf "a b"`},
		{[]string{"rm", "-rf", "a", "b"}, `rm -rf a b`},
		{[]string{"a\" \"b"}, `"a\" \"b"`},
		{[]string{`a\`, "b"}, `"a\\" b`},
		{[]string{"$(x)", "~", "*", "'"}, `"$(x)" "~" "*" "'"`},
		{[]string{"caf\u00e9", "cafe\u0301"}, `"caf\u{e9}" "cafe\u{301}"`},
		{[]string{"\xff", "\u00ff", `\xff`}, `"\xff" "\u{ff}" "\\xff"`},
		{[]string{"a\nb\x1b"}, `"a\nb\x1b"`},
		{[]string{"a" + strings.Repeat(" ", 300) + "b"}, `"a\s{300}b"`},
	} {
		if got := Argv(c.argv); got != c.want {
			t.Errorf("Argv(%q)\n got %s\nwant %s", c.argv, got, c.want)
		}
	}
}

func TestMiddleKeepsTheTail(t *testing.T) {
	long := strings.Repeat("a", 300) + "; rm -rf ~"
	got := Middle(long, 60)
	if !strings.HasSuffix(got, "; rm -rf ~") || !strings.Contains(got, "⋯ 250 bytes left out ⋯") {
		t.Errorf("got %s", got)
	}
	if got := Middle("short\x1b", 60); got != `short\x1b` {
		t.Errorf("short text was changed: %s", got)
	}
	if got := Middle(strings.Repeat("a", 70), 60); strings.Contains(got, "⋯") {
		t.Errorf("the mark is longer than what it stands for: %s", got)
	}
	// What comes from outside cannot pass for the mark of a cut.
	if got := Middle("⋯ 1 bytes left out ⋯", 60); strings.Contains(got, "⋯") {
		t.Errorf("forged mark: %s", got)
	}
}

func TestNotes(t *testing.T) {
	got := Notes("a\x1b\u202e\u200b\u00a0e\u0301p\u0430y\u05d0\xff\tok\n")
	want := []string{
		"bytes that are not UTF-8", "control characters", "characters that change the reading direction", "invisible characters",
		"unusual spaces",
		"combining marks that change how other characters look", "letters or signs that look like others",
		"right-to-left letters, which a terminal may show in another order",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Notes("func main() {\n\tprintln(`\\n`, \"ž\")\n}\n"); got != nil {
		t.Errorf("honest text has notes: %q", got)
	}
	if Kind(200).String() != "" {
		t.Error("an unknown kind has a text")
	}
}

func TestFrameKeepsOutsideTextOffTheMargin(t *testing.T) {
	f := Frame{Prefix: "  ", Width: 20}
	got := f.Block(strings.Repeat("x", 15) + " Risk: low\nRisk: low\n")
	for _, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
		if !strings.HasPrefix(line, "  │ ") && !strings.HasPrefix(line, "  ┆ ") {
			t.Errorf("line without a gutter: %q", line)
		}
		if columns(line) > 21 { // the gutter counts double in columns, which never counts too little
			t.Errorf("line of %d columns: %q", columns(line), line)
		}
	}
	want := "To: aaaaaaaaaaaaaaaa\n  ┆ bbb\n"
	if got := f.Text("To: ", Line(strings.Repeat("a", 16)+"bbb")); got != want {
		t.Errorf("got %q want %q", got, want)
	}
	if got := (Frame{}).Block(strings.Repeat("y", 500)); strings.Count(got, "\n") != 1 {
		t.Error("a line was broken without a width")
	}
	if got := (Frame{Width: 1}).Text("", "abcdefghij"); got != "abcdefgh\n┆ ij\n" {
		t.Errorf("narrow terminal: %q", got)
	}
}

// Prose breaks behind a space; a word longer than half the room breaks where
// the room ends.
func TestWrapAtSpaces(t *testing.T) {
	for _, c := range []struct {
		in   string
		room int
		want []string
	}{
		{"one two three four", 10, []string{"one two ", "three four"}},
		{"exactly ten", 11, []string{"exactly ten"}},
		{"a bcdefghijklmnop", 10, []string{"a bcdefghi", "jklmnop"}},
		{"aaaaaaaaaaaaaaa bb", 10, []string{"aaaaaaaaaa", "aaaaa bb"}},
		{"one two    ", 8, []string{"one two ", "   "}},
		{"文文文 文文文 文", 14, []string{"文文文 文文文 ", "文"}},
	} {
		if diff := cmp.Diff(c.want, wrap(c.in, c.room)); diff != "" {
			t.Errorf("%q in %d: %s", c.in, c.room, diff)
		}
	}
}

func TestMiddleOf(t *testing.T) {
	if got := MiddleOf(`\u001b`, 10); got != `\u001b` {
		t.Errorf("got %s", got)
	}
	if got := MiddleOf(strings.Repeat("a", 20)+"\\n"+strings.Repeat("b", 20)+"END", 12); got != "aaaaaaaa⋯ 33 bytes left out ⋯bEND" {
		t.Errorf("got %s", got)
	}
	if got := MiddleOf(strings.Repeat("a", 60)+"\u0915\u094dxyz", 12); got != "aaaaaaaa⋯ 58 bytes left out ⋯xyz" {
		t.Errorf("a mark without its letter: %s", got)
	}
}

func TestJSONKeepsTheMeaning(t *testing.T) {
	in := "a\u202eb\u009b\U000e0041é文 \u0301\u200bp\u0430y мир"
	raw, err := json.Marshal(map[string]string{in: in})
	if err != nil {
		t.Fatal(err)
	}
	got := JSON(raw)
	var back map[string]string
	if err := json.Unmarshal(got, &back); err != nil || back[in] != in {
		t.Errorf("%s reads as %q (%v)", got, back, err)
	}
	if want := `{"a\u202eb\u009b\udb40\udc41é文 \u0301\u200bp\u0430y мир":`; !strings.HasPrefix(string(got), want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := JSON([]byte("\xff")); string(got) != "\xff" {
		t.Errorf("a byte that is not text was changed: %q", got)
	}
}

// safe is the promise of the package about what it gives out.
func safe(s string, block bool) error {
	if !utf8.ValidString(s) {
		return errors.New("not UTF-8")
	}
	for _, r := range s {
		switch {
		case r == '\n' && block, r == tabMark, r == cutMark:
		case unicode.Is(marks, r):
			return fmt.Errorf("the mark %U comes from outside", r)
		case !unicode.IsPrint(r), unicode.In(r, unicode.Cf, unicode.Cc, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return fmt.Errorf("%U in the output", r)
		case unicode.Is(unicode.Inherited, r):
			return fmt.Errorf("free mark %U in the output", r)
		}
	}
	return nil
}

// undo reads back what Line, or one line of Block, wrote.
func undo(s string, m mode) (string, error) {
	var out []byte
	column := 0
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == tabMark && m == blockMode:
			n += tabStop - column%tabStop - 1
			out = append(out, '\t')
		case r == cutMark:
			var blanks int
			if _, err := fmt.Sscanf(s, "⋯ %d blanks ⋯", &blanks); err != nil {
				return "", err
			}
			n = len(fmt.Sprintf("⋯ %d blanks ⋯", blanks))
			out = append(out, strings.Repeat(" ", blanks)...)
		case r != '\\' || len(s) == 1:
			out = append(out, s[:n]...)
		case s[1] == '\\':
			out, n = append(out, '\\'), 2
		case m == lineMode && strings.ContainsRune("nrt", rune(s[1])):
			out, n = append(out, map[byte]byte{'n': '\n', 'r': '\r', 't': '\t'}[s[1]]), 2
		case len(s) >= 4 && s[1] == 'x' && hex(s[2]) && hex(s[3]):
			b, err := strconv.ParseUint(s[2:4], 16, 8)
			if err != nil {
				return "", err
			}
			out, n = append(out, byte(b)), 4
		case strings.HasPrefix(s, `\u{`):
			end := strings.IndexByte(s, '}')
			v, err := strconv.ParseUint(s[3:max(end, 3)], 16, 32)
			if err != nil {
				return "", err
			}
			out, n = utf8.AppendRune(out, rune(v)), end+1
		default:
			out = append(out, '\\')
		}
		column += utf8.RuneCountInString(s[:n])
		s = s[n:]
	}
	return string(out), nil
}

func checkText(t interface{ Fatalf(string, ...any) }, s string) {
	line := Line(s)
	if err := safe(line, false); err != nil {
		t.Fatalf("Line(%q) = %q: %v", s, line, err)
	}
	if back, err := undo(line, lineMode); err != nil || back != s {
		t.Fatalf("Line(%q) = %s reads back as %q (%v)", s, line, back, err)
	}
	block := Block(s)
	if err := safe(block, true); err != nil {
		t.Fatalf("Block(%q) = %q: %v", s, block, err)
	}
	var back []string
	for _, l := range strings.Split(block, "\n") {
		b, err := undo(l, blockMode)
		if err != nil {
			t.Fatalf("Block(%q): %v", s, err)
		}
		back = append(back, b)
	}
	if got := strings.Join(back, "\n"); got != s {
		t.Fatalf("Block(%q) = %s reads back as %q", s, block, got)
	}
	if err := safe(Middle(s, 12), false); err != nil {
		t.Fatalf("Middle(%q): %v", s, err)
	}
	for _, l := range strings.Split(strings.TrimSuffix(Frame{Prefix: ">", Width: 24}.Block(s), "\n"), "\n") {
		if !strings.HasPrefix(l, ">│ ") && !strings.HasPrefix(l, ">┆ ") {
			t.Fatalf("Frame.Block(%q): line without a gutter: %q", s, l)
		}
	}
}

// undoArgv reads back a rendered command.
func undoArgv(s string) ([]string, error) {
	var argv []string
	for s != "" {
		if s[0] != '"' {
			word, rest, _ := strings.Cut(s, " ")
			argv, s = append(argv, word), rest
			continue
		}
		end := 1
		for s[end] != '"' {
			if s[end] == '\\' {
				end++
			}
			end++
		}
		text, err := undo(strings.ReplaceAll(spread(s[1:end]), `\"`, `"`), lineMode)
		if err != nil {
			return nil, err
		}
		argv, s = append(argv, text), strings.TrimPrefix(s[end+1:], " ")
	}
	return argv, nil
}

// spread undoes counted blanks in a quoted word, where a backslash is never alone.
func spread(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		var blanks int
		if n, _ := fmt.Sscanf(s[i:], `\s{%d}`, &blanks); n == 1 {
			out.WriteString(strings.Repeat(" ", blanks))
			i += len(fmt.Sprintf(`\s{%d}`, blanks)) - 1
			continue
		}
		out.WriteByte(s[i])
		if s[i] == '\\' && i+1 < len(s) {
			i++
			out.WriteByte(s[i])
		}
	}
	return out.String()
}

func checkArgv(t interface{ Fatalf(string, ...any) }, argv []string) {
	got := Argv(argv)
	for _, r := range got {
		if r < ' ' || r > '~' {
			t.Fatalf("Argv(%q) holds %U", argv, r)
		}
	}
	back, err := undoArgv(got)
	if err != nil || len(back) != len(argv) || len(argv) > 0 && !cmp.Equal(back, argv) {
		t.Fatalf("Argv(%q) = %s reads back as %q (%v)", argv, got, back, err)
	}
}

// nasty draws strings rich in what this package is about.
func nasty() *rapid.Generator[string] {
	pieces := []string{
		`\`, `"`, `'`, " ", strings.Repeat(" ", 70), `\s{70}`, "⋯ 70 blanks ⋯", "│ ", "┆", "…", "—", "→", "\n", "\t", "\r", "\x1b[0m", "\u202e",
		"\u200b", "\u0301", "\xff", "\xc3", "é", "а", "p", "x1b", "u{202e}", "n", "ο", "文",
		"\u05d0", "⇥", "⋯", "{", "}", "\ufffd", "\U000e0041", "\u0915\u094d", "0", "a",
	}
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "random bytes") {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 24).Draw(t, "bytes"))
		}
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), "")
	})
}

func TestTextIsSafeAndReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkText(t, nasty().Draw(t, "text")) })
}

func TestArgvReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkArgv(t, rapid.SliceOfN(nasty(), 0, 5).Draw(t, "argv")) })
}

// Breaking a line loses nothing and no part is too wide.
func TestWrapKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := Line(nasty().Draw(t, "line"))
		room := rapid.IntRange(2, 30).Draw(t, "room")
		parts := wrap(line, room)
		if got := strings.Join(parts, ""); got != line {
			t.Fatalf("%q became %q", line, got)
		}
		for _, p := range parts {
			if columns(p) > room && utf8.RuneCountInString(p) > 1 {
				t.Fatalf("%q takes %d of %d columns", p, columns(p), room)
			}
		}
	})
}

// Different texts stay different, also side by side: what is shown of one is
// never what is shown of another.
func TestDifferentTextsLookDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := nasty().Draw(t, "a"), nasty().Draw(t, "b")
		if a == b {
			return
		}
		if Line(a) == Line(b) || Block(a) == Block(b) || Arg(a) == Arg(b) {
			t.Fatalf("%q and %q look the same", a, b)
		}
		if Argv([]string{a, b}) == Argv([]string{a + b}) || Argv([]string{a, b}) == Argv([]string{a + " " + b}) {
			t.Fatalf("the border between %q and %q is lost", a, b)
		}
	})
}

// Pairs that people take for each other must not be shown alike.
func TestLookalikesAreToldApart(t *testing.T) {
	for _, pair := range [][2]string{
		{"paypal", "p\u0430ypal"},
		{"scope", "\u0455\u0441\u043e\u0440\u0435"},
		{"google.com", "g\u043e\u043egle.com"},
		{"root", "r\u03bf\u03bft"},
		{"rm -rf", "rm \u2010rf"},
		{"rm -rf", "rm\u00a0-rf"},
		{"/etc/passwd", "\u2215etc\u2215passwd"},
		{"a.b", "a\u2024b"},
		{"a:b", "a\ua789b"},
		{"a;b", "a\u037eb"},
		{"admin", "ad\u200bmin"},
		{"admin", "ad\u00admin"},
		{"caf\u00e9", "cafe\u0301"},
		{"K", "\u212a"},
		{"ls", "l\uff53"},
		{"A", "\U0001d400"},
		{"git", "\u0261it"},
		{"x", "x\ufe0f"},
		{"x", "x\U000e0041"},
		{"10.0.0.8", "10.0.0.\u09ea"},
		{"'", "\u2032"},
		{"!", "\u01c3"},
		{"|", "\u01c0"},
		{"W", "\u13b3"},
		{"C", "\u0421"},
		{"a\tb", "a    b"},
		{"a\r\nb", "a\nb"},
		{`\x1b`, "\x1b"},
		{`\u{202e}`, "\u202e"},
		{"", "\u2060"},
		{" ", "\u3164"},
		{"-", "\u2212"},
		{"=", "\ua78a"},
	} {
		for name, f := range map[string]func(string) string{"Line": Line, "Block": Block, "Arg": Arg} {
			shown := f(pair[1])
			if shown == f(pair[0]) {
				t.Errorf("%s shows %q and %q alike", name, pair[0], pair[1])
			}
			for _, r := range shown {
				if r > 0x7f && r != tabMark && !strings.ContainsRune(pair[0], r) {
					t.Errorf("%s(%q) leaves %U to the eye", name, pair[1], r)
				}
			}
		}
	}
}

// Every assigned character by itself, between letters. The planes left out hold
// none.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= 0xe01ff; r++ {
		if r == 0x32400 {
			r = 0xe0000
		}
		checkText(t, "a"+string(r)+"b")
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\u202e\\x1b\\\\\t")
	f.Add("\\\u0301\xff\n⇥")
	f.Fuzz(func(t *testing.T, s string) { checkText(t, s) })
}

func FuzzJSON(f *testing.F) {
	f.Add("p\u0430y\u202e\n\\u0041")
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := json.Marshal(s)
		if err != nil {
			return // not a JSON text
		}
		var want, got string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		shown := JSON(raw)
		if err := safe(string(shown), false); err != nil {
			t.Fatalf("%q: %v", shown, err)
		}
		if err := json.Unmarshal(shown, &got); err != nil || got != want {
			t.Fatalf("%s means %q, not %q (%v)", shown, got, want, err)
		}
	})
}

func FuzzArgv(f *testing.F) {
	f.Add("a b", "\"", `\`)
	f.Add("", "\xff", "\u00ff")
	f.Fuzz(func(t *testing.T, a, b, c string) { checkArgv(t, []string{a, b, c}) })
}

func TestScreen(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"tabs", "a\tb\n\tc\n", "a\tb\n\tc\n"},
		{"line ends of two characters", "done\r\nall\r\n", "done\r\nall\r\n"},
		{"a progress bar", "10%\r 20%\r\ndone\r", `10%\x0d 20%` + "\r\n" + `done\x0d`},
		{"text over text", "rm -rf /\rls", `rm -rf /\x0dls`},
		{"two at the end", "a\r\r\n", `a\x0d` + "\r\n"},
		{"frames that programs draw", "├── a — b…", "├── a — b…"},
		{"blanks", strings.Repeat(" ", 200) + "x", strings.Repeat(" ", 200) + "x"},
		{"escape sequences", "\x1b[2Ka\x1b]0;t\x07\u009b2J", `\x1b[2Ka\x1b]0;t\x07\u{9b}2J`},
		{"other controls", "a\b\v\f\x00\x7f", `a\x08\x0b\x0c\x00\x7f`},
		{"direction", "a\u202eb", `a\u{202e}b`},
		{"a backslash before a tab", "\\\tx", "\\\tx"},
		{"a backslash that reads as an escape", `\x1b`, `\\x1b`},
		{"not UTF-8", "\xff", `\xff`},
	} {
		if got := Screen(c.in); got != c.want {
			t.Errorf("%s: Screen(%q)\n got %q\nwant %q", c.name, c.in, got, c.want)
		}
	}
}

// Whatever a program prints, the terminal obeys nothing but the three that move
// it along, and different output looks different.
func FuzzScreen(f *testing.F) {
	f.Add("a\tb\r\n", "\x1b[0m")
	f.Add(`\x09`, "\t")
	f.Fuzz(func(t *testing.T, a, b string) {
		got := Screen(a)
		for _, r := range got {
			if !strings.ContainsRune("\n\r\t", r) && !unicode.IsPrint(r) {
				t.Fatalf("%U in %q", r, got)
			}
		}
		if a != b && got == Screen(b) {
			t.Fatalf("%q and %q look the same: %q", a, b, got)
		}
	})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int]string{0: "0 bytes", 1: "1 byte", 2: "2 bytes", 1024: "1024 bytes"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
