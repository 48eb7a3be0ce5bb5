package policy

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"palyra"
)

const oneRule = `@id("a") permit (principal, action, resource);`

func TestCheck(t *testing.T) {
	files := map[string]string{"a.cedar": oneRule, "tests/a.yaml": "tests: []\n", entitiesFile: "[]"}
	before := maps.Clone(files)
	b, r := Check(files)
	if b == nil || r.Digest != b.Digest() || r.Policies != 1 || len(r.Problems) != 0 {
		t.Fatalf("%+v", r)
	}
	if !maps.Equal(files, before) {
		t.Error("the files given were changed")
	}
	if b.Files()[schemaFile] != SchemaText() || b.Files()["tests/a.yaml"] == "" {
		t.Error("the bundle does not carry its schema and tests")
	}
	for name, text := range map[string]string{"tests/a.yaml": "tests: [ ]\n", entitiesFile: "[ ]", "b.cedar": "// more"} {
		other := maps.Clone(files)
		other[name] = text
		if c, _ := Check(other); c == nil || c.Digest() == b.Digest() {
			t.Errorf("%s is not in the digest", name)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range maxFiles + 1 {
		many[strings.Repeat("a", 1+i%40)+string(rune('a'+i/40%26))+string(rune('a'+i/1040))+".cedar"] = ""
	}
	for name, c := range map[string]struct {
		files map[string]string
		file  string
		say   string
	}{
		"nothing":        {nil, ".", "no policy"},
		"a parent":       {map[string]string{"../a.cedar": oneRule}, "../a.cedar", "a bundle has no such file"},
		"absolute":       {map[string]string{"/a.cedar": oneRule}, "/a.cedar", "a bundle has no such file"},
		"deep":           {map[string]string{"x/a.cedar": oneRule}, "x/a.cedar", "a bundle has no such file"},
		"deep test":      {map[string]string{"tests/x/a.yaml": ""}, "tests/x/a.yaml", "a bundle has no such file"},
		"hidden":         {map[string]string{".cedar": oneRule}, ".cedar", "a bundle has no such file"},
		"other language": {map[string]string{"a.rego": ""}, "a.rego", "a bundle has no such file"},
		"control":        {map[string]string{"a\n.cedar": oneRule}, "a\n.cedar", "a bundle has no such file"},
		"backslash":      {map[string]string{`a\b.cedar`: oneRule}, `a\b.cedar`, "a bundle has no such file"},
		"no name":        {map[string]string{"": oneRule}, "", "a bundle has no such file"},
		"long name":      {map[string]string{strings.Repeat("a", 70) + ".cedar": oneRule}, "", "a bundle has no such file"},
		"not UTF-8":      {map[string]string{"a.cedar": "\xff"}, "a.cedar", "UTF-8"},
		"large":          {map[string]string{"a.cedar": strings.Repeat(" ", maxFile+1)}, "a.cedar", "larger"},
		"a fault":        {map[string]string{"a.cedar": oneRule, "b.cedar": "\npermit"}, "b.cedar", ""},
		"entities":       {map[string]string{"a.cedar": oneRule, entitiesFile: "{}"}, entitiesFile, "list"},
		"schema":         {map[string]string{"a.cedar": oneRule, schemaFile: "entity X;"}, schemaFile, "this version"},
		"many":           {many, ".", "larger than"},
	} {
		b, r := Check(c.files)
		if b != nil || len(r.Problems) == 0 || r.Digest != "" {
			t.Errorf("%s: %+v", name, r)
			continue
		}
		p := r.Problems[0]
		if c.file != "" && p.File != c.file || !strings.Contains(p.Text, c.say) || p.Line < 1 || p.Column < 1 {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// What a directory holds beside the bundle is left alone; a policy is not.
func TestReadTakesWhatBelongs(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	files, err := Read(fstest.MapFS{
		"a.cedar": text(oneRule), "README.md": text("x"), ".swp.cedar": text("x"), "sub/b.md": text("x"), entitiesFile: text("[]"),
		"tests/t.yaml": text("x"), "tests/.t.yaml": text("x"), "tests/deep/t.yaml": text("x"),
	})
	if err != nil || len(files) != 3 || files["a.cedar"] == "" || files[entitiesFile] == "" || files["tests/t.yaml"] == "" {
		t.Errorf("%v, %v", files, err)
	}
	if _, err := Read(fstest.MapFS{"a.cedar": text(oneRule), strings.Repeat("b", 80) + ".cedar": text(oneRule)}); palyra.CodeOf(
		err) != palyra.Invalid {
		t.Errorf("a policy was left out without a word: %v", err)
	}
}

func TestEntities(t *testing.T) {
	b, r := Check(map[string]string{
		"a.cedar": `@id("web") permit (principal in Team::"web", action == Action::"tool.execute", resource);
@id("owned") forbid (principal is Agent, action == Action::"tool.execute", resource) when { principal has owner && principal.owner in Team::"slow" };
@id("role") permit (principal in Role::"lead", action == Action::"policy.write", resource);`,
		entitiesFile: `[
  {"uid": {"type": "Agent", "id": "local"}, "parents": [{"type": "Team", "id": "web"}]},
  {"uid": {"type": "User", "id": "bob"}, "attrs": {}, "parents": [{"type": "Team", "id": "slow"}, {"type": "Role", "id": "lead"}]},
  {"uid": {"type": "Team", "id": "web"}}
]`,
	})
	if b == nil {
		t.Fatal(r.Problems)
	}
	e := engine(t, b)
	for _, c := range []struct {
		who, owner palyra.Principal
		want       palyra.Effect
		by         string
	}{
		{"agent:local", "user:ada", palyra.Allow, "web"},
		{"agent:other", "user:ada", palyra.Deny, ""},
		{"agent:local", "user:bob", palyra.Deny, "owned"},
		{"user:bob", "", palyra.Deny, ""},
	} {
		q := echo()
		q.Principal, q.Owner = c.who, c.owner
		if v := e.Judge(t.Context(), q); v.Effect != c.want || ids(v) != c.by {
			t.Errorf("%s of %s: %s by %q", c.who, c.owner, v.Effect, ids(v))
		}
	}
	for who, want := range map[palyra.Principal]bool{"user:bob": true, "user:ada": false} {
		if ok, _ := e.AuthorizeAction(t.Context(), who, nil, "policy.write", "Policy", "x"); ok != want {
			t.Errorf("%s may change policy: %t", who, ok)
		}
	}
}

func TestEntitiesRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		line, col int
		say       string
	}{
		"not JSON":       {"nothing", 1, 1, "list"},
		"an object":      {`{"uid":1}`, 1, 1, "list"},
		"cut off":        {"[\n {\"uid\":{\"type\":\"User\",\"id\":\"a\"}}", 2, 34, "does not end"},
		"a syntax error": {"[\n  {\"uid\": !}]", 2, 11, "invalid character"},
		"a second one":   {"[{\"uid\":{\"type\":\"User\",\"id\":\"a\"}},\n  {\"uid\": !}]", 2, 11, "invalid character"},
		"something more": {"[]\n[]", 2, 2, "follows"},
		"unknown field":  {"[\n {\"uid\":{\"type\":\"User\",\"id\":\"a\"},\"x\":1}]", 2, 2, "unknown field"},
		"wrong type":     {"[\n\n {\"uid\":{\"type\":\"Tool\",\"id\":\"a\"}}]", 3, 2, "Tool"},
		"no name":        {`[{"uid":{"type":"User","id":""}}]`, 1, 2, "name"},
		"control":        {`[{"uid":{"type":"User","id":"a\u0007"}}]`, 1, 2, "name"},
		"attributes":     {`[{"uid":{"type":"Agent","id":"a"},"attrs":{"owner":{"type":"User","id":"x"}}}]`, 1, 2, "attributes"},
		"a parent":       {`[{"uid":{"type":"User","id":"a"},"parents":[{"type":"User","id":"b"}]}]`, 1, 2, "team or role"},
		"team in team":   {`[{"uid":{"type":"Team","id":"a"},"parents":[{"type":"Team","id":"b"}]}]`, 1, 2, "hold principals"},
		"agent an owner": {`[{"uid":{"type":"Agent","id":"a"},"parents":[{"type":"Role","id":"owner"}]}]`, 1, 2, "only a User"},
		"twice":          {"[{\"uid\":{\"type\":\"User\",\"id\":\"a\"}},\n {\"uid\":{\"type\":\"User\",\"id\":\"a\"}}]", 2, 2, "twice"},
	} {
		_, p := readEntities(c.text)
		if len(p) == 0 || p[0].Line != c.line || p[0].Column != c.col || !strings.Contains(p[0].Text, c.say) || p[0].File != entitiesFile {
			t.Errorf("%s: %v", name, p)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("a.cedar", oneRule, `[{"uid":{"type":"User","id":"a"},"parents":[{"type":"Team","id":"b"}]}]`)
	f.Add("tests/a.yaml", "x", "[{]")
	f.Fuzz(func(t *testing.T, name, text, entities string) {
		b, r := Check(map[string]string{name: text, entitiesFile: entities, "z.cedar": oneRule})
		if (b == nil) == (len(r.Problems) == 0) {
			t.Fatalf("a bundle and problems, or neither: %+v", r)
		}
		for _, p := range r.Problems {
			if p.Line < 1 || p.Column < 1 || p.Text == "" {
				t.Fatalf("%+v", p)
			}
		}
	})
}
