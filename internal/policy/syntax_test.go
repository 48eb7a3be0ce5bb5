package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		p := rewordParserError(text, Problem{File: "a", Line: line, Column: column, Text: said})
		if p.Text == "" && said != "" {
			t.Error(said)
		}
	})
}

// Everything that is wrong is told at once, each thing at its place.
func TestEveryProblemIsTold(t *testing.T) {
	const head = `forbid (principal, action == Action::"tool.execute", resource) when { `
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"two that do not parse": {"// é\n@id(\"a\") forbid (principal, action, resource) when { context.x == };\n@id(\"ok\") forbid " +
			"(principal, action, resource);\n  @id(\"b\") forbid (principal action, resource);\n", []string{
			`a.cedar:2:67: expected a value, found "}"`, `a.cedar:4:30: expected ",", found "action"`,
		}},
		"no id and two unknown attributes": {head + "context.nope == 1 && context.none == 2 };", []string{
			`a.cedar:1:1: the policy has no @id("NAME")`, "a.cedar:1:79: attribute `nope` in context for Action::\"tool.execute\" not found",
			"a.cedar:1:100: attribute `none` in context for Action::\"tool.execute\" not found",
		}},
		"a bad id and a bad reason": {"@id(\"a b\")\n@reason(\"\\0\")\n" + head + "true };", []string{
			`a.cedar:1:1: @id "a b": only letters, digits and . _ : / - are allowed, at most 128`,
			"a.cedar:1:1: @reason and @remedy must be printable text of at most 512 bytes",
		}},
	} {
		_, err := Compile(map[string]string{"a.cedar": c.text, schemaFile: SchemaText()})
		var found Problems
		if !errors.As(err, &found) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, p := range found {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	many := strings.Repeat("forbid (principal action, resource);\n", 500)
	_, err := Compile(map[string]string{"a.cedar": many, schemaFile: SchemaText()})
	if found := (Problems{}); !errors.As(err, &found) || len(found) != maxUnread {
		t.Errorf("%d problems", len(found))
	}
}
