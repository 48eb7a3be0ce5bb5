package show

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write what the console needs of this package anew")

// What the console has of this package: the class of every character, and vectors, which internal/web holds its code against.
const (
	consoleKinds   = "../../console/src/ui/kinds.ts"
	consoleVectors = "testdata/vectors.json"
)

// Bits of a class beside the kind of its characters, which is in the lowest four.
const (
	classMark = 16 << iota
	classLetter
	classDigit
	classLatin
	classNear
	classFar
	classInherited
)

// classOf is all that render asks of a character. Of one that is escaped in every mode only whether it is a mark counts on.
func classOf(r rune) int {
	c := int(classify(r))
	if c != int(fine) && c != int(rightToLeft) {
		return c | map[bool]int{true: classMark}[unicode.IsMark(r)]
	}
	for bit, is := range map[int]bool{
		classMark: unicode.IsMark(r), classLetter: unicode.IsLetter(r), classDigit: unicode.IsDigit(r),
		classLatin: unicode.Is(unicode.Latin, r), classInherited: unicode.Is(unicode.Inherited, r),
		classNear: unicode.In(r, alphabets...) && unicode.Is(twins, r),
		classFar:  unicode.In(r, alphabets...) && !unicode.Is(twins, r),
	} {
		if is {
			c |= bit
		}
	}
	return c
}

// kindsText writes the classes of all characters: a letter for the class, and how many characters in a row have it.
func kindsText(t *testing.T) string {
	t.Helper()
	var classes []string
	letters, runs, was, n := map[int]int{}, strings.Builder{}, -1, 0
	end := func() {
		if n == 0 {
			return
		}
		runs.WriteByte(byte('A' + letters[was]))
		if n > 1 {
			runs.WriteString(strconv.FormatInt(int64(n), 36))
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		c := classOf(r)
		if _, known := letters[c]; !known {
			letters[c] = len(letters)
			classes = append(classes, strconv.Itoa(c))
		}
		if c != was {
			end()
			was, n = c, 0
		}
		n++
	}
	end()
	if len(letters) > 'Z'-'A'+1 {
		t.Fatalf("%d classes are more than there are letters", len(letters))
	}
	var lines strings.Builder
	for text := runs.String(); text != ""; {
		k := min(len(text), 120)
		fmt.Fprintf(&lines, "  %q,\n", text[:k])
		text = text[k:]
	}
	return "// Made from internal/show by 'go test ./internal/show -update': what kind of character each is. A letter is a class, and how\n" +
		"// many characters in a row are of it follows, in base 36.\n" +
		"export const classes: readonly number[] = [" + strings.Join(classes, ", ") + "];\n" +
		"export const runs: string = [\n" + lines.String() + "].join(\"\");\n"
}

// hostile are texts that want to pass for something else.
var hostile = []string{
	"", "plain text", `C:\temp`, `a\x1b`, `a\u{202e}`, `a\n`, `a\\b`, "a\\\u202e", "tab\tand\ttab", "two\nlines",
	"cr\rlf\r\n", "\x1b[2J\x1b]0;x\x07", "\x9b31m", "\x7f", "\u202egpj.exe", "z\u200bero\u200d\ufeff",
	"\u2066a\u2069", "a\u00a0b\u3000c\u2028d", "paypal", "p\u0430ypal", "\u0440\u0430\u0443",
	"\u043f\u0440\u0438\u0432\u0435\u0442", "\u0430\u0440\u0440", "\u03bf", "\u041fython", "\uff50\uff41",
	"e\u0301", "\u0915\u094d\u0937\u0941", "\u0e01\u0e49\u0e49\u0e49\u0e49\u0e49", "a\u0338",
	"\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "│ ┆ ⇥ ⋯ … — ─ ✓",
	"<img src=x onerror=alert(1)>", "&lt;", "\u2044etc\u2215passwd", "\U0001d400", "\U0001f600",
	"\ue000\U000f0000", "\ufffd", "\u2800\u3164\u115f", "'quoted' \"double\" $x `y`",
	strings.Repeat(" ", 63) + "x", "a" + strings.Repeat(" ", 80) + "rm -rf /", "中文 한국어 ไทย", "\u0130\u0131\u017f",
	"A\u0391\u0410", "x_\u0430", "1\u0435", "\u0661", "--ﬂag", "\u1e9e", "a\\\tb", "\\", "\\\\", "\\\n", "\t\\x41",
}

// vector is how one text is shown.
type vector struct{ Text, Line, Block, Arg string }

// The console shows outside text as this package does: its classes of characters are these, and the vectors too.
func TestTheConsoleHasTheSame(t *testing.T) {
	all := make([]vector, 0, len(hostile))
	for _, s := range hostile {
		s = strings.ToValidUTF8(s, "\ufffd") // as it comes to a page
		all = append(all, vector{s, Line(s), Block(s), Arg(s)})
	}
	vectors, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{consoleKinds: kindsText(t), consoleVectors: string(vectors) + "\n"} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is of other characters (%v): run 'go test ./internal/show -update' and 'make console'", file, err)
		}
	}
}
