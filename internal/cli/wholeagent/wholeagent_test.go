package wholeagent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra/internal/cli/invocation"
	"palyra/secrets"
)

// TestTable: every entry can be read, says where it is from, and makes a profile that the daemon takes.
func TestTable(t *testing.T) {
	var all []Setup
	dec := json.NewDecoder(bytes.NewReader(table))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	if want := []string{"claude-code", "codex", "opencode", "gemini"}; !slices.Equal(Names(), want) {
		t.Fatalf("%q", Names())
	}
	for _, s := range all {
		if s.Title == "" || s.Program == "" || s.Version == "" || s.ReadOn == "" || s.Source == "" || len(s.Keys) == 0 || len(s.Caches) == 0 ||
			len(s.Headless) == 0 || len(s.Resume) == 0 {
			t.Errorf("%+v", s)
		}
		f := s.furnishing()
		f.Mounts = []string{"/home/me/.local/lib/node_modules"}
		if doc, err := f.Document(); err != nil || !bytes.HasPrefix(doc, []byte(f.Mark())) {
			t.Errorf("%s: %v\n%s", s.Name, err, doc)
		}
		for _, h := range slices.Concat(s.Hosts, s.SignIn, s.Silenced) {
			if !strings.HasSuffix(h.At, ":443") || h.What == "" {
				t.Errorf("%s: %+v", s.Name, h)
			}
		}
		for _, h := range s.Silenced {
			words := strings.Join(s.Args, " ") + strings.Join(pairs(s.Env), " ") + string(mustJSON(t, s.Files))
			if !strings.Contains(words, lastOf(h.By)) {
				t.Errorf("%s: nothing switches off what %s is for (%s)", s.Name, h.At, h.By)
			}
		}
		for _, k := range s.Keys {
			if !slices.Contains(secrets.Kinds(), secrets.Kind(k.Kind)) || k.Env == "" || len(k.Hosts) == 0 {
				t.Errorf("%s: %+v", s.Name, k)
			}
		}
	}
}

func lastOf(by string) string { return by[strings.LastIndex(by, ".")+1:] }

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestPackageDir: what a room sees of a program's place, and no more.
func TestPackageDir(t *testing.T) {
	for real, want := range map[string]string{
		"/home/me/.nvm/versions/node/v22/lib/node_modules/@openai/codex/bin/codex.js": "/home/me/.nvm/versions/node/v22/lib/node_modules",
		"/home/me/x/node_modules/a/node_modules/b/cli.js":                             "/home/me/x/node_modules",
		"/home/me/.local/share/claude/versions/2.1.325":                               "/home/me/.local/share/claude/versions",
	} {
		if got := packageDir(real); got != want {
			t.Errorf("%s: %s", real, got)
		}
	}
	if !ofTheSystem("/usr/local/lib/node_modules/x") || ofTheSystem("/home/me/usr/bin/x") || ofTheSystem("/usrlocal/x") {
		t.Error("what rooms see anyway")
	}
}

// TestPlace: where a model server of the person's own is.
func TestPlace(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:8080/v1": "127.0.0.1:8080", "https://Models.example": "models.example:443",
		"http://models.example/": "models.example:80",
		"ftp://x":                "", "models.example:80": "", "http://me:pw@models.example": "", "": "",
	} {
		if got, err := place(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
}

// TestHeadless: which words mean that there is no window.
func TestHeadless(t *testing.T) {
	for name, c := range map[string]struct{ yes, no []string }{
		"claude-code": {[]string{"--model", "x", "-p", "go"}, []string{"--resume"}},
		"codex":       {[]string{"exec", "go"}, []string{"resume"}},
		"opencode":    {[]string{"run", "go"}, nil},
		"gemini":      {[]string{"-p", "go"}, []string{"-i", "go"}},
	} {
		s, err := Find(name)
		if err != nil || !s.IsHeadless(c.yes) || s.IsHeadless(c.no) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Find("claude"); err == nil || !strings.Contains(err.Error(), "claude-code, codex, opencode, gemini") {
		t.Errorf("%v", err)
	}
}

// TestBound: a binding lends the key only where it is what the program needs, at the host that it is for.
func TestBound(t *testing.T) {
	s, err := Find("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	fits := secrets.Binding{
		Name: "work", Kind: secrets.Header, Place: "X-Api-Key", Env: "ANTHROPIC_API_KEY", Hosts: []string{"api.anthropic.com:443"},
	}
	other, place, kind, own := fits, fits, fits, fits
	other.Hosts, place.Place, kind.Kind, own.Name = []string{"elsewhere.example:443"}, "Authorization", secrets.Provider, s.Name
	k := keys{setup: s}
	for _, b := range []secrets.Binding{other, place, kind} {
		if lent, _ := k.bound([]secrets.Binding{b}); lent != nil {
			t.Errorf("%+v", b)
		}
	}
	if lent, _ := k.bound([]secrets.Binding{other, fits, own}); lent == nil || lent.Binding != s.Name {
		t.Errorf("%+v", lent)
	}
}

// Without a window and without a key it is said how one is lent; with one, or a model of the person's own, nothing is.
func TestNoKeyWithoutAWindow(t *testing.T) {
	for _, c := range []struct {
		o    Options
		st   Start
		says bool
	}{
		{Options{}, Start{Agent: "gemini", Headless: true}, true},
		{Options{}, Start{Agent: "gemini"}, false},
		{Options{}, Start{Agent: "gemini", Headless: true, Key: &Lent{}}, false},
		{Options{modelURL: "http://127.0.0.1:1"}, Start{Agent: "gemini", Headless: true}, false},
	} {
		var said strings.Builder
		inv := &invocation.Invocation{}
		inv.Stderr = &said
		c.o.sayNoKey(inv, c.st)
		if got := strings.Contains(said.String(), "palyra vault put gemini --from-stdin"); got != c.says {
			t.Errorf("%+v: %q", c.st, said.String())
		}
	}
}
