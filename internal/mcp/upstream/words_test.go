package upstream

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLastWords(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"white space", " \r\n\n\t\n", ""},
		{"one line", "no such port\n", "no such port"},
		{"without an end", "first\nlast", "last"},
		{
			"node", "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module '/x.js'\n    at Module._load " +
				"(error.js)\n  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v20.20.2\n",
			"Error: Cannot find module '/x.js' ... Node.js v20.20.2",
		},
		{"python", "Traceback:\n  File \"a.py\"\nModuleNotFoundError: No module named 'mcp'\n", "ModuleNotFoundError: No module named 'mcp'"},
		{"go", "panic: no\n\ngoroutine 1 [running]:\n\tmain.go:3\nexit status 2\n", "panic: no ... exit status 2"},
		{"control characters", "Error: \x1b[31mred\nbye\n", `Error: \x1b[31mred ... bye`},
		{"long lines", "error " + long + "\n" + long + "\n", "error " + long[:wordsBytes-6] + " ... " + long[:wordsBytes]},
	} {
		if got := lastWords([]byte(c.in)); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func FuzzLastWords(f *testing.F) {
	f.Add([]byte("Error: a\n at b\nc\n"))
	f.Add([]byte("\xff error \xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := lastWords(b)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b") || len(got) > 2*10*wordsBytes+8 {
			t.Errorf("%q", got)
		}
	})
}
