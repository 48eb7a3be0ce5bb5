package screen

import (
	"bytes"
	"strings"
	"testing"
)

// A summary in which the daemon escaped outside text is not escaped again; where
// something in it is not safe, or a backslash stands bare, all of it is.
func TestSummaryIsEscapedOnce(t *testing.T) {
	for text, want := range map[string]string{
		`run script "set -e\nnpm ci"`:       `run script "set -e\nnpm ci"`,
		`run a "b\\n" "\x1b"`:               `run a "b\\n" "\x1b"`,
		`run cat "x" < "a\nb"`:              `run cat "x" < "a\nb"`,
		`read a\nb`:                         `read a\\nb`, // a name with a backslash, not a line break
		"run \"a\nb\"":                      `run "a\nb"`,
		"run \"a\x1bb\\n\"":                 `run "a\x1bb\\n"`,
		"run \"\u202e\\n\"":                 `run "\u{202e}\\n"`,
		`run "a\nb [3 bytes left out] c`:    `run "a\\nb [3 bytes left out] c`, // the quote has no end
		`run "a" \n "b"`:                    `run "a" \\n "b"`,
		"run 'a\\n'":                        `run 'a\\n'`,
		"run `a\\n`":                        "run `a\\\\n`",
		"":                                  "",
		`write "caf` + "\u00e9" + `\n.txt"`: `write "caf` + "\u00e9" + `\n.txt"`,
	} {
		if got := SafeLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	long := `run "` + strings.Repeat(`a\n`, 100) + `"`
	if got := SafeMiddle(long, 60); strings.Contains(got, `\\n`) || !strings.Contains(got, "left out") {
		t.Error(got)
	}
	var out bytes.Buffer
	Table(&out, []string{"TOOL", SummaryColumn}, [][]string{{`"a\nb"`, `"a\nb"`}})
	Fields(&out, Pair{"Tool", `"a\nb"`}, Pair{SummaryField, `"a\nb"`})
	if strings.Count(out.String(), `"a\nb"`) != 2 || strings.Count(out.String(), `"a\\nb"`) != 2 {
		t.Error(out.String())
	}
}
