package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"palyra"
)

const projectRule = `@id("no-echo") @reason("not here") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write");`

func projectEngine(t *testing.T, own func(string) (*Bundle, error)) *Engine {
	t.Helper()
	e, err := New(Config{Bundle: defaults(t), Snapshot: open(), Project: func(at string, _ ...string) (*Bundle, error) { return own(at) }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A workspace's policies take away, in that workspace and only there.
func TestProjectForbids(t *testing.T) {
	own, err := LoadProject(fstest.MapFS{"a.cedar": {Data: []byte(projectRule)}, "README": {}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := projectEngine(t, func(ws string) (*Bundle, error) {
		if ws == "/w" {
			return own, nil
		}
		return nil, nil
	})
	for range 2 { // the second time it is ready
		v := e.Judge(t.Context(), write("a"))
		if v.Effect != palyra.Deny || ids(v) != "project/no-echo" || v.Policies[0].File != ".palyra/policy/a.cedar" ||
			v.Bundle != e.Bundle().Digest() {
			t.Fatalf("%s by %+v", v.Effect, v.Policies)
		}
	}
	elsewhere := write("a")
	elsewhere.Plan.Workspace.Path = "/other"
	for _, r := range []palyra.Request{elsewhere, echo()} {
		if v := e.Judge(t.Context(), r); strings.Contains(ids(v), "project") || v.Effect == palyra.Deny {
			t.Errorf("%s by %q", v.Effect, ids(v))
		}
	}
	if len(e.Bundle().Policies()) != len(defaults(t).Policies()) {
		t.Error("the bundle in force was changed")
	}
}

func TestBrokenProjectRefuses(t *testing.T) {
	permits := load(t, permitAll)
	for name, own := range map[string]func(string) (*Bundle, error){
		"unreadable": func(string) (*Bundle, error) { return nil, errors.New("no") },
		"permits":    func(string) (*Bundle, error) { return permits, nil },
		"a typo": func(string) (*Bundle, error) {
			return LoadProject(fstest.MapFS{"a.cedar": {Data: []byte("\n forbid (prinzipal);")}}, nil)
		},
	} {
		e := projectEngine(t, own)
		v := e.Judge(t.Context(), write("a"))
		if v.Effect != palyra.Deny || len(v.Errors) != 1 || !strings.Contains(v.Reason, ProjectDir) ||
			!strings.Contains(v.Remedy, ProjectDir) || strings.Contains(v.Reason, "\n") {
			t.Errorf("%s: %+v", name, v)
		}
		if name == "a typo" && !strings.Contains(v.Reason, "a.cedar:2:") {
			t.Errorf("no place: %s", v.Reason)
		}
		if v := e.Judge(t.Context(), echo()); v.Effect != palyra.Allow {
			t.Errorf("%s: a call in no workspace: %s", name, v.Effect)
		}
	}
}

func TestLoadProject(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	many := fstest.MapFS{}
	for i := range maxProjectFiles + 1 {
		many[strings.Repeat("a", i+1)[:min(i+1, 50)]+string(rune('0'+i/10))+string(rune('0'+i%10))+".cedar"] = text("// x")
	}
	for name, c := range map[string]struct {
		fsys fstest.MapFS
		say  string // empty: nil bundle and no error
	}{
		"nothing":      {fstest.MapFS{}, ""},
		"no policy":    {fstest.MapFS{"README": text("x"), entitiesFile: text("[1]"), "tests/a.yaml": text("x")}, ""},
		"a permit":     {fstest.MapFS{"a.cedar": text("\n" + permitAll)}, "may only forbid"},
		"large":        {fstest.MapFS{"a.cedar": text(strings.Repeat(" ", maxProject+1))}, "more than"},
		"many":         {many, "more than"},
		"only comment": {fstest.MapFS{"a.cedar": text("// x")}, "no policy"},
		"no id":        {fstest.MapFS{"a.cedar": text("forbid (principal, action, resource);")}, "@id"},
	} {
		b, err := LoadProject(c.fsys, nil)
		if b != nil || (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
	fsys := fstest.MapFS{"a.cedar": text(projectRule)}
	first, err := LoadProject(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := LoadProject(fsys, first); err != nil || again != first {
		t.Errorf("read again: %v", err)
	}
	fsys["b.cedar"] = text(strings.Replace(projectRule, "no-echo", "more", 1))
	if again, err := LoadProject(fsys, first); err != nil || again == first || len(again.rules) != 2 {
		t.Errorf("changed: %v", err)
	}
}

// What a plan says of places below its workspace is told to whoever knows their
// policies, and nothing else is.
func TestPlacesBelow(t *testing.T) {
	p := palyra.Plan{
		Workspace: palyra.WorkspaceRef{Path: "/w"}, Cwd: "/w/sub",
		Reads: []string{"a/b", ".", "../x", "/etc/passwd"}, Writes: []string{"a/b", "c"},
	}
	if got, want := PlacesOf(p), []string{"/w/a/b", "/w/c", "/w/sub"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	p.Cwd = "/ws"
	if got := PlacesOf(p); slices.Contains(got, "/ws") {
		t.Errorf("%q", got)
	}
	inner, err := LoadProject(fstest.MapFS{"a.cedar": {Data: []byte(projectRule)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, outer := range []*Bundle{nil, inner} {
		b, other := outer.With(inner, "a\x1b/b"), outer.With(inner, "a/c")
		last := b.rules[len(b.rules)-1]
		if b.digest == other.digest || b.digest == inner.digest || string(last.id) != "project/a?/b/no-echo" ||
			last.hit.File != "a?/b/.palyra/policy/a.cedar" {
			t.Errorf("%s %+v", b.digest, last.hit)
		}
	}
	if string(inner.rules[0].id) != "project/no-echo" {
		t.Error("it was changed")
	}
}

// A name that begins with a quotation mark is that name: only what is not UTF-8 is asked for quoted, as by the file tools.
func TestPlacesOfQuotedNames(t *testing.T) {
	for asked, want := range map[string]string{
		`"sub/\n"`: `/w/"sub/\n"`, `"a"`: `/w/"a"`, `"d\xff/b"`: "/w/d\xff/b", `"\"a\\xff\""`: `/w/"a\xff"`, "a\nb": "/w/a\nb", "…": "/w/…",
	} {
		p := palyra.Plan{Workspace: palyra.WorkspaceRef{Path: "/w"}, Cwd: "/w", Reads: []string{asked}}
		if got := PlacesOf(p); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", asked, got, want)
		}
	}
}
