package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllow: the rule comes and goes, and all else stays as it is written.
func TestAllow(t *testing.T) {
	for name, c := range map[string]struct{ doc, back string }{
		"nothing":      {"", "{}"},
		"other things": {"{\n  \"model\": \"x\",\n  \"n\": 12345678901234567890\n}\n", ""},
		"other rules":  {`{"permissions": {"allow": ["Read"], "deny": ["WebFetch"]}}`, ""},
		"other tables": {`{"permissions": {"deny": ["WebFetch"]}}`, ""},
	} {
		in, err := WithRule([]byte(c.doc), true)
		if err != nil || strings.Count(string(in), AllowRule) != 1 {
			t.Fatalf("%s: %v\n%s", name, err, in)
		}
		if again, err := WithRule(in, true); err != nil || string(again) != string(in) {
			t.Errorf("%s: a second time: %v\n%s", name, err, again)
		}
		out, err := WithRule(in, false)
		if err != nil || strings.Contains(string(out), AllowRule) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		before, _ := jsonForm{}.decode([]byte(c.doc))
		after, err := jsonForm{}.decode(out)
		if err != nil || len(after) != len(before) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if none, err := WithRule([]byte(c.doc), false); err != nil || string(none) != c.doc {
			t.Errorf("%s: %v %s", name, err, none)
		}
	}
	for _, doc := range []string{
		"{ // x\n}", "[]", `{"permissions": 1}`, `{"permissions": {"allow": {}}}`,
		`{"permissions": {"allow": []}, "permissions": {}}`,
	} {
		if out, err := WithRule([]byte(doc), true); err == nil {
			t.Errorf("%s became %s", doc, out)
		}
	}
}

// TestFilesThatAreOnlyOurs: what install made, uninstall takes away; a project's file can
// be read by others of the project.
func TestFilesThatAreOnlyOurs(t *testing.T) {
	dir := t.TempDir()
	for _, c := range Clients() {
		path := filepath.Join(dir, c.Name, "config")
		done, err := c.Write(path, Server{Command: "/p", Args: []string{"mcp", "serve"}, Shared: true})
		if err != nil || !done.Changed {
			t.Fatalf("%s: %+v %v", c.Name, done, err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v %v", c.Name, fi.Mode(), err)
		}
		done, err = c.Remove(path, true)
		if left, _ := os.ReadDir(filepath.Dir(path)); err != nil || !done.Removed || done.Backup != "" || len(left) != 0 {
			t.Errorf("%s: %+v %v, left %v", c.Name, done, err, left)
		}
	}
	path := filepath.Join(dir, "settings.json")
	if _, err := Allow(path, true); err != nil {
		t.Fatal(err)
	}
	if done, err := Allow(path, false); err != nil || !done.Removed {
		t.Errorf("%+v %v", done, err)
	}
	if c, _ := Find("codex"); c.Sets() == "" {
		t.Error("nobody is told what Codex is set to")
	}
}
