package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"palyra"
)

const rest = `, action == Action::"tool.execute", resource)`

// Every way a bundle can be wrong names file, line and column.
func TestLoadProblems(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line, col  int
		say        string
	}{
		{"no id", "\n  permit (principal, action, resource);", 2, 3, "@id"},
		{"empty id", `@id("") permit (principal, action, resource);`, 1, 1, "@id"},
		{"bare id", `@id permit (principal, action, resource);`, 1, 1, "@id"},
		{"bad id", `@id("a b") permit (principal, action, resource);`, 1, 1, "letters"},
		{"long id", `@id("` + strings.Repeat("a", 129) + `") permit (principal, action, resource);`, 1, 1, "letters"},
		{
			"same id", "@id(\"a\") permit (principal, action, resource);\n@id(\"a\") forbid (principal, action, resource);", 2, 1,
			"already used at a.cedar:1",
		},
		{"reason too long", `@id("a") @reason("` + strings.Repeat("a", 513) + `") permit (principal, action, resource);`, 1, 1, "printable"},
		{"escape in reason", `@id("a") @reason("\u{1b}[31m") permit (principal, action, resource);`, 1, 1, "printable"},
		{"bidi in remedy", `@id("a") @remedy("\u{202e}x") permit (principal, action, resource);`, 1, 1, "printable"},
		{"syntax", "@id(\"a\")\npermit (principal, action, ressource);", 2, 28, "ressource"},
		{"effect", `@id("a") allow (principal, action, resource);`, 1, 10, "allow"},
		{"unfinished", `@id("a") permit (principal, action, resource)`, 1, 46, ";"},
		{"unclosed string", "@id(\"a\") permit (principal" + rest + "\n when { \"x == 1 };", 2, 9, "not terminated"},
		{"number too large", "@id(\"a\") permit (principal, action, resource);\n @id(\"b\") permit (principal" + rest +
			" when { 99999999999999999999 == 1 };", 2, 2, "range"},
		{"bad escape", "\n\n@id(\"a\") permit (principal" + rest + ` when { "\u{D800}" == "a" };`, 3, 1, "escape"},
		{"misspelt attribute", "@id(\"a\") permit (principal" + rest + "\n  when { context.tol == \"x\" };", 2, 18, "`tol`"},
		{"misspelt entity attribute", "@id(\"a\") permit (principal" + rest + "\n  when { resource.nam == \"x\" };", 2, 19, "`nam`"},
		{"optional attribute", "@id(\"a\") permit (principal" + rest + "\n  when { context.executable.path == \"x\" };", 2, 18, "`executable`"},
		{"wrong type", "\n@id(\"a\") permit (principal" + rest + "\n  when { context.tool == 1 };", 2, 1, "not compatible"},
		{"unknown action", "@id(\"a\")\npermit (principal, action == Action::\"tool.exec\", resource);", 2, 30, "tool.exec"},
		{"unknown entity type", "@id(\"a\")\npermit (principal is Agnt" + rest + ";", 2, 22, "Agnt"},
		{"not a bool", "@id(\"a\") permit (principal" + rest + " when { context.input_bytes };", 1, 1, "Bool"},
		{"impossible scope", `@id("a") permit (principal, action == Action::"vault.use", resource is Tool);`, 1, 1, "applicable"},
		{"template", `@id("a") permit (principal == ?principal, action, resource);`, 1, 32, "principal"},
		{
			"too deep", "@id(\"a\") permit (principal" + rest + "\nwhen { " + strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60) + " };",
			2, 55, "deeper",
		},
		{"too long", "@id(\"a\") permit (principal" + rest + "\nwhen { " + strings.Repeat("!", 5000) + "true };", 2, 4083, "tokens"},
		{
			"too many has", "@id(\"a\") permit (principal" + rest + "\nwhen { true" + strings.Repeat(" && context has tool", 65) + " };", 2, 1304,
			"has",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(dir(c.text))
			var p Problems
			if !errors.As(err, &p) {
				t.Fatalf("loaded, or not told where: %v", err)
			}
			if palyra.CodeOf(err) != palyra.Invalid {
				t.Errorf("code %s", palyra.CodeOf(err))
			}
			if p[0].File != "a.cedar" || p[0].Line != c.line || p[0].Column != c.col || !strings.Contains(p[0].Text, c.say) {
				t.Errorf("got %s, want a.cedar:%d:%d: …%s…", p[0], c.line, c.col, c.say)
			}
		})
	}
}

// One mistake under a scope of many actions is one problem.
func TestLoadReportsAMistakeOnce(t *testing.T) {
	_, err := Load(dir(`@id("a") permit (principal, action, resource) when { context.nope == 1 };`))
	var p Problems
	if !errors.As(err, &p) || len(p) != 1 {
		t.Fatalf("got %v", p)
	}
}

func TestLoadReportsEveryFile(t *testing.T) {
	bad := []byte(`permit (principal, action, resource);`)
	_, err := Load(fstest.MapFS{"a.cedar": {Data: bad}, "b.cedar": {Data: bad}, "notes.txt": {Data: []byte("not policy")}})
	var p Problems
	if !errors.As(err, &p) || len(p) != 2 || p[0].File != "a.cedar" || p[1].File != "b.cedar" {
		t.Fatalf("got %v", p)
	}
}

func TestLoadRefuses(t *testing.T) {
	ok := []byte(`@id("a") permit (principal, action, resource);`)
	many := fstest.MapFS{}
	for i := range maxFiles + 2 {
		many[fmt.Sprintf("f%d.cedar", i)] = &fstest.MapFile{Data: []byte("// nothing\n")}
	}
	for name, fsys := range map[string]fs.FS{
		"nothing":         fstest.MapFS{},
		"no policy":       dir("// only a comment"),
		"foreign schema":  fstest.MapFS{"a.cedar": {Data: ok}, schemaFile: {Data: []byte("entity User;")}},
		"changed schema":  fstest.MapFS{"a.cedar": {Data: ok}, schemaFile: {Data: []byte(SchemaText() + " ")}},
		"not UTF-8":       dir("@id(\"a\") permit (principal, action, resource); // \xff"),
		"a huge file":     dir(strings.Repeat(" ", maxFile+1)),
		"many files":      many,
		"unreadable file": fstest.MapFS{"a.cedar": {Mode: fs.ModeDir}, "a.cedar/x": {}, "b": {}},
		"no directory":    brokenFS{},
	} {
		b, err := Load(fsys)
		if b != nil || palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(fstest.MapFS{"a.cedar": {Data: ok}, schemaFile: {Data: []byte(SchemaText())}}); err != nil {
		t.Errorf("the schema of this version: %v", err)
	}
}

type brokenFS struct{}

func (brokenFS) Open(string) (fs.File, error) { return nil, fs.ErrPermission }

func TestBundleDigest(t *testing.T) {
	text := `@id("a") permit (principal, action, resource);`
	base := load(t, text)
	if !base.Digest().Valid() {
		t.Fatalf("digest %q", base.Digest())
	}
	if again := load(t, text); again.Digest() != base.Digest() {
		t.Error("the same files have two digests")
	}
	withSchema, err := Load(fstest.MapFS{"a.cedar": {Data: []byte(text)}, schemaFile: {Data: []byte(SchemaText())}})
	if err != nil || withSchema.Digest() != base.Digest() {
		t.Errorf("a copy of the schema changes the digest: %v", err)
	}
	renamed, err := Load(fstest.MapFS{"b.cedar": {Data: []byte(text)}})
	if err != nil || renamed.Digest() == base.Digest() {
		t.Errorf("another name, the same digest: %v", err)
	}
	if load(t, text+"\n").Digest() == base.Digest() {
		t.Error("another content, the same digest")
	}
}

func TestPoliciesKeepTheirPlace(t *testing.T) {
	b := load(t, "// first line\n  @id(\"a\") @reason(\"r\") @remedy(\"m\")\n  permit (principal, action, resource);\n@id(\"b\") "+
		"forbid (principal, action, resource);")
	got := b.Policies()
	want := []palyra.PolicyHit{
		{ID: "a", Effect: "permit", Reason: "r", Remedy: "m", File: "a.cedar", Line: 2, Column: 3},
		{ID: "b", Effect: "forbid", File: "a.cedar", Line: 4, Column: 1},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

func TestScan(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // line:column of each statement
	}{
		{"", ""},
		{"  // permit\n /* forbid; \n */ \t", ""},
		{"a;b;\n c;", "1:1 1:3 2:2"},
		{`a "x;\"y;" b; c`, "1:1 1:15"},
		{"é \"é\" ; x", "1:1 1:9"},
		{"/* a */ b /* ;", "1:9"},
		{"a // ;\n;b", "1:1 2:2"},
	} {
		got, p := scan(c.text)
		var s []string
		for _, g := range got {
			s = append(s, fmt.Sprintf("%d:%d", g.line, g.column))
		}
		if p != nil || strings.Join(s, " ") != c.want {
			t.Errorf("scan(%q) = %v, %v; want %s", c.text, s, p, c.want)
		}
	}
}

// Text that is built to be expensive is refused or loaded in a moment.
func TestLoadHostileTextIsQuick(t *testing.T) {
	head := `@id("a") permit (principal, action, resource) when { `
	for name, body := range map[string]string{
		"parentheses": strings.Repeat("(", 1<<20),
		"brackets":    strings.Repeat("[", 1<<20),
		"records":     strings.Repeat(`{"a":`, 1<<18),
		"not":         strings.Repeat("!", 4000) + "true };",
		"minus":       "1 == " + strings.Repeat("-", 4000) + "1 };",
		"and":         "true" + strings.Repeat(" && true", 2000) + " };",
		"or has":      "context has tool" + strings.Repeat(" || context has tool", 63) + " };",
		"and has":     "context has a0" + hases(63) + " };",
		"dots":        "context" + strings.Repeat(".approval", 2000) + " };",
		"has dots":    "context has approval" + strings.Repeat(".approval", 2000) + " };",
		"if":          strings.Repeat("if true then ", 40) + "true" + strings.Repeat(" else false", 40) + " };",
		"else if":     strings.Repeat("if context.sensitive then true else ", 500) + "true };",
		"calls":       strings.Repeat(`ip("`, 2000),
		"set":         "[" + strings.Repeat("1,", 2000) + "1].contains(1) };",
		"comment":     "/*" + strings.Repeat("*", 1<<20),
		"string":      `"` + strings.Repeat(`\`, 1<<20),
		"like":        `"a" like "` + strings.Repeat("*a", 1<<16) + `" };`,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			b, err := Load(dir(head + body))
			if err == nil {
				engine(t, b).Judge(t.Context(), echo())
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
}

func hases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " && context has a%d", i)
	}
	return b.String()
}

// Whatever the text, Load comes back with a bundle or with a place, and a
// bundle judges.
func FuzzLoad(f *testing.F) {
	entries, err := fs.ReadDir(shipped, "default")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := shipped.ReadFile("default/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for _, s := range []string{
		`@id("a") permit (principal == User::"\u{202e}", action in [], resource is Tool in ToolGroup::"allowed") when { if 1 < 2 then true else 1 like "*" };`,
		`@id("a") forbid (principal, action, resource) unless { [{a: 1}].contains({"a": -9223372036854775808}) };`,
		`@id("a") permit (principal, action, resource) when { ip("::1").isLoopback() && decimal("1.0").lessThan(decimal("x")) };`,
		`@id("a") permit (principal, action, resource) when { principal has owner.x && principal.hasTag("a") && datetime("2024") < duration("1d") };`,
		"@id(\"a\")permit(principal,action,resource)when{\x00};",
		"\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Load(dir(text))
		if err != nil {
			var p Problems
			if !errors.As(err, &p) || p[0].File == "" || p[0].Line < 1 || p[0].Column < 1 {
				t.Fatalf("no place: %v", err)
			}
			return
		}
		e, err := New(Config{Bundle: b, Snapshot: open()})
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Judge(t.Context(), write("a.txt")); v.Effect != palyra.Deny && len(v.Errors) > 0 {
			t.Fatalf("%s with errors %v", v.Effect, v.Errors)
		}
	})
}
