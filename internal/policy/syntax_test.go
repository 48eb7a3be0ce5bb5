package policy

import (
	"strings"
	"testing"
)

// What the parser says is worded for people, at the place of what is wrong.
func TestSyntaxProblems(t *testing.T) {
	for text, want := range map[string]string{
		"\npermit (principal, action resource);":                              `a.cedar:2:27: expected ",", found "resource"`,
		"permit (principal, action, resource) when { context.x = 1 };":        `a.cedar:1:55: expected "}", found "="`,
		"permit (principal, action, resource)":                                `a.cedar:1:37: expected ";", found the end of the file`,
		"// a\npermt (principal, action, resource);":                          `a.cedar:2:1: expected permit or forbid, found "permt"`,
		"@id(x) permit (principal, action, resource);":                        `a.cedar:1:5: expected a text in quotes, found "x"`,
		"permit (principal, action, resource) when { };":                      `a.cedar:1:45: expected a value, found "}"`,
		"permit (principal == User::bob, action, resource);":                  `a.cedar:1:31: expected "::", found ","`,
		"permit (principal, action, resource) /* , x */ when true;":           `a.cedar:1:53: expected "{", found "true"`,
		"permit (principal, action == Action::\"a\"\n  resource);":            `a.cedar:2:3: expected ",", found "resource"`,
		"permit (principal, action, resource) when { \"abc };":                "literal not terminated",
		"permit (principal, action, resource) when { context.x.isAbout(1) };": "is not a method",
	} {
		_, report := Check(map[string]string{"a.cedar": text})
		if len(report.Problems) == 0 || !strings.Contains(report.Problems[0].String(), want) {
			t.Errorf("%q: %v", text, report.Problems)
		}
	}
}

func FuzzSyntaxProblems(f *testing.F) {
	f.Add("permit (principal, action resource);", "\")\": exact got resource want ,", 1, 35)
	f.Add("\"é\n", "\"\": invalid primary", 9, -1)
	f.Fuzz(func(t *testing.T, text, said string, line, column int) {
		p := clearer(text, Problem{File: "a", Line: line, Column: column, Text: said})
		if p.Text == "" && said != "" {
			t.Error(said)
		}
	})
}
