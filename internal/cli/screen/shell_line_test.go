//go:build linux

package screen

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the words are, every shell here takes the line apart into them again.
func TestShellLineIsReadBackByShells(t *testing.T) {
	tail := rapid.SliceOfN(rapid.OneOf(
		rapid.StringMatching(`[ -~]{0,20}`), rapid.StringOf(rapid.RuneFrom([]rune("'\"\\$`!\n\t ;&|<>(){}[]*?~#=^%é\u2028\U0001F600\r\x01\x7f"))),
		rapid.SampledFrom([]string{
			"", "'", "''", "'\\''", "$(touch x)", "`id`", "-n", "--", "!!", "=ls", "\\", "a\nb", "EOF\n", "\n", "%s",
			"~root", "{a,b}",
		}),
	), 1, 8)
	for _, shell := range []string{"/bin/sh", "/bin/bash", "/bin/dash"} {
		if _, err := os.Stat(shell); err != nil {
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			words := tail.Draw(t, "words")
			line := ShellLine(append([]string{"printf", `%s\0`}, words...))
			out, err := exec.Command(shell, "-c", line).Output()
			if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(out) != want {
				t.Fatalf("%s: %q printed %q, want %q: %v", shell, line, out, want, err)
			}
			// A second shell around it, as agents put one, changes nothing.
			out, err = exec.Command(shell, "-c", "eval "+shellWord(line)).Output()
			if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(out) != want {
				t.Fatalf("%s: eval of %q printed %q: %v", shell, line, out, err)
			}
		})
	}
}
