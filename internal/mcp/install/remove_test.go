package install_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/mcp/install"
)

const (
	serves    = `{"command":"p","args":["mcp","serve"]}`
	tomlServe = "command = 'p'\nargs = ['--home', '/h', 'mcp', 'serve']\n"
	yamlServe = "    cmd: p\n    args:\n    - mcp\n    - serve\n"
)

func TestWithout(t *testing.T) {
	for _, c := range []struct{ name, client, old, want string }{
		{"alone", "cursor", `{"mcpServers": { "palyra": ` + serves + ` } }`, `{"mcpServers": {} }`},
		{"first", "cursor", `{"mcpServers":{"palyra":` + serves + ` , "x":{}},"n":1.50}`, `{"mcpServers":{ "x":{}},"n":1.50}`},
		{"between", "cursor", `{"mcpServers":{"a":1, "palyra": ` + serves + `,"x":{}}}`, `{"mcpServers":{"a":1,"x":{}}}`},
		{"last", "vscode", "{\"servers\":{\"a\":\"<&>\" ,\n \"palyra\":" + serves + "\n}}", "{\"servers\":{\"a\":\"<&>\"\n}}"},
		{"a name written with escapes", "cursor", `{"mcpServers":{"p\u0061lyra":` + serves + `}}`, `{"mcpServers":{}}`},
		{"only the table that is meant", "claude-code", `{"projects":{"/a":{"mcpServers":{"palyra":` + serves + `}}},"mcpServers":{"palyra":` +
			serves + `}}`, `{"projects":{"/a":{"mcpServers":{"palyra":` + serves + `}}},"mcpServers":{}}`},
		{"toml", "codex", "model = 'o'\n\n[mcp_servers.palyra]\n" + tomlServe + "\n# why\n[b]\nc = 1\n", "model = 'o'\n\n# why\n[b]\nc = 1\n"},
		{"toml, tables below it", "codex", "[a]\nb = 1\n[mcp_servers.\"palyra\"] # mine\n" + tomlServe +
			"[mcp_servers.palyra.env]\nX = 'y'\n[mcp_servers.palyra2]\nc = 1\n", "[a]\nb = 1\n[mcp_servers.palyra2]\nc = 1\n"},
		{
			"toml, text that looks like it", "codex", "x = '''\n[ mcp_servers.palyra ]\n'''\n\n[mcp_servers.palyra]\n" + tomlServe,
			"x = '''\n[ mcp_servers.palyra ]\n'''\n",
		},
		{"toml, line ends of two", "codex", "a = 1\r\n\r\n[mcp_servers.palyra]\r\n" + strings.ReplaceAll(tomlServe, "\n", "\r\n"), "a = 1\r\n"},
		{
			"yaml", "goose", "# mine\nextensions:\n  palyra:\n" + yamlServe + "\n  # next\n  dev:\n    enabled: true\nMODE: auto\n",
			"# mine\nextensions:\n\n  # next\n  dev:\n    enabled: true\nMODE: auto\n",
		},
		{"yaml, last", "goose", "extensions:\n    dev: {}\n    palyra:\n        cmd: p\n# a comment within\n        args: [mcp,\n       " +
			"   serve]\nMODE: auto\n", "extensions:\n    dev: {}\nMODE: auto\n"},
		{
			"yaml, alone", "goose", "extensions: # why\n  # what\n  palyra:\n" + yamlServe + "MODE: auto\n",
			"extensions: # why\n  # what\n  {}\nMODE: auto\n",
		},
		{
			"yaml, other line ends", "goose", "a: 1\rb: 2\r\n# \u2028extensions:\n  dev: {}\n  palyra:\n" + yamlServe,
			"a: 1\rb: 2\r\n# \u2028extensions:\n  dev: {}\n",
		},
		{"yaml, at the end", "goose", "extensions:\n  'palyra':\n    cmd: p\n    args: [mcp, serve]", "extensions:\n  {}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := find(t, c.client)
			got, lines, err := client.Without([]byte(c.old))
			if err != nil || string(got) != c.want || !strings.Contains(lines, "serve") || !strings.Contains(c.old, lines) {
				t.Fatalf("%v\n%s\nwant\n%s\nlines\n%s", err, got, c.want, lines)
			}
			again, lines, err := client.Without(got)
			if err != nil || string(again) != string(got) || lines != "" {
				t.Errorf("the second time: %v %q\n%s", err, lines, again)
			}
			if _, err := client.Merge([]byte(c.old), palyraServer); err != nil {
				return // install would not have written this
			}
			if back, err := client.Merge(got, palyraServer); err != nil || !strings.Contains(string(back), palyraServer.Command) {
				t.Errorf("it cannot be installed again: %v\n%s", err, back)
			}
		})
	}
}

func TestWithoutWhereThereIsNone(t *testing.T) {
	for _, c := range []struct{ client, old string }{
		{"cursor", ""},
		{"cursor", " \n"},
		{"cursor", "{}"},
		{"cursor", `{"mcpServers":null}`},
		{"cursor", `{"mcpServers":{}, "palyra": 1}`},
		{"cursor", `{"mcpServers":{"Palyra":` + serves + `}}`},
		{"codex", ""},
		{"codex", "[mcp_servers]\n"},
		{"codex", "x = '''\n[mcp_servers.palyra]\n'''\n"},
		{"codex", "mcp_servers = {x = {command = 'x'}}"},
		{"goose", ""},
		{"goose", "extensions:\n"},
		{"goose", "extensions: {dev: {}}\n"},
		{"goose", "x: |\n  extensions:\n    palyra:\n"},
	} {
		got, lines, err := find(t, c.client).Without([]byte(c.old))
		if err != nil || string(got) != c.old || lines != "" {
			t.Errorf("%s %q: %v %q %s", c.client, c.old, err, lines, got)
		}
	}
}

func TestWithoutLeavesAloneWhatItCannotChange(t *testing.T) {
	for _, c := range []struct{ client, old string }{
		{"vscode", "{\n  // mine\n  \"servers\": {\"palyra\":" + serves + "}\n}"},
		{"cursor", `{"mcpServers":[]}`},
		{"cursor", `[]`},
		{"cursor", `null`},
		{"cursor", `{} {}`},
		{"cursor", `{"a":`},
		{"cursor", `{"mcpServers":{"palyra":` + serves + `,}}`},
		{"cursor", `{"mcpServers":{"palyra":` + serves + `},"mcpServers":{}}`},
		{"cursor", `{"mcpServers":{"palyra":` + serves + `,"palyra":` + serves + `}}`},
		// not ours
		{"cursor", `{"mcpServers":{"palyra":null}}`},
		{"cursor", `{"mcpServers":{"palyra":[]}}`},
		{"cursor", `{"mcpServers":{"palyra":{"url":"https://example.com"}}}`},
		{"cursor", `{"mcpServers":{"palyra":{"command":"p","args":"mcp serve"}}}`},
		{"cursor", `{"mcpServers":{"palyra":{"command":"p","args":["serve","mcp"]}}}`},
		{"cursor", `{"mcpServers":{"palyra":{"command":"p","args":["mcp"]}}}`},
		{"cursor", `{"mcpServers":{"palyra":{"args":["mcp","serve"]}}}`},
		{"codex", "[mcp_servers.palyra]\ncommand = 'p'\nargs = ['x']\n"},
		{"goose", "extensions:\n  palyra:\n    cmd: p\n"},
		// written otherwise
		{"codex", "a = "},
		{"codex", "mcp_servers = 1"},
		{"codex", "[mcp_servers]\npalyra = {command = 'p', args = ['mcp', 'serve']}"},
		{"codex", "[mcp_servers.palyra]\n" + tomlServe + "[a]\nb = 1\n[mcp_servers.palyra.env]\nX = 'y'\n"},
		{"goose", "a: [1"},
		{"goose", "- a\n"},
		{"goose", "extensions: x\n"},
		{"goose", "extensions: {palyra: {cmd: p, args: [mcp, serve]}}\n"},
		{"goose", "extensions:\n  ? palyra\n  :\n    cmd: p\n    args: [mcp, serve]\n"},
		{"goose", "extensions:\n  palyra: &a\n    cmd: p\n    args: [mcp, serve]\n  other: *a\n"},
		{"goose", "a: &a\n  palyra:\n    cmd: p\n    args: [mcp, serve]\nextensions:\n  <<: *a\n"},
	} {
		got, _, err := find(t, c.client).Without([]byte(c.old))
		if err == nil || got != nil || !strings.Contains(palyra.AsError(err).Remedy, "by hand") {
			t.Errorf("%s %q: %v\n%s", c.client, c.old, err, got)
		}
	}
}

func TestRemove(t *testing.T) {
	for _, c := range install.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			home := t.TempDir()
			path, err := c.Path(install.Places{Home: home, Config: filepath.Join(home, ".config")}, "")
			if err != nil {
				t.Fatal(err)
			}
			if none, err := c.Remove(path, false); err != nil || none.Changed || none.Path != path {
				t.Errorf("no file: %+v %v", none, err)
			}
			if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
				t.Errorf("something was made: %v %v", entries, err)
			}
			if _, err := c.Write(path, palyraServer); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o640); err != nil {
				t.Fatal(err)
			}
			old, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := c.Entry(path)
			if now, rerr := os.ReadFile(path); err != nil || rerr != nil || string(now) != string(old) ||
				!strings.Contains(lines, palyraServer.Command) {
				t.Errorf("looking: %v %v %s", err, rerr, lines)
			}
			done, err := c.Remove(path, false)
			if err != nil || !done.Changed || done.Backup != "" { // before Palyra there was no file
				t.Fatalf("%+v %v", done, err)
			}
			if now, err := os.ReadFile(path); err != nil || strings.Contains(string(now), "palyra") {
				t.Errorf("%v\n%s", err, now)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v %v", info.Mode(), err)
			}
			if again, err := c.Remove(path, false); err != nil || again.Changed || again.Backup != "" {
				t.Errorf("the second time: %+v %v", again, err)
			}
		})
	}
}

func TestRemoveRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "link.json")
	c := find(t, "cursor")
	if _, err := c.Write(path, palyraServer); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	for _, place := range []string{link, dir} {
		_, err := c.Remove(place, false)
		if _, lerr := c.Entry(place); err == nil || lerr == nil || !strings.Contains(palyra.AsError(err).Remedy, "by hand") {
			t.Errorf("%s: %v %v", place, err, lerr)
		}
	}
	after, err := os.ReadFile(path)
	if _, kept := os.Lstat(link + ".before-palyra"); err != nil || string(after) != string(before) || kept == nil {
		t.Errorf("%v %v %s", err, kept, after)
	}
}

// forms are a client of each format, with how its files are read without our code.
var forms = []struct {
	client, table string
	decode        func([]byte, any) error
}{
	{"cursor", "mcpServers", json.Unmarshal}, {"codex", "mcp_servers", toml.Unmarshal}, {"goose", "extensions", yaml.Unmarshal},
}

// meaning is a file as its client reads it, where no table and an empty one are the same.
func meaning(doc []byte, table string, decode func([]byte, any) error) (map[string]any, error) {
	m := map[string]any{}
	if len(strings.TrimSpace(string(doc))) == 0 {
		return m, nil
	}
	err := decode(doc, &m)
	inner, ok := m[table].(map[string]any)
	delete(inner, "palyra")
	if m[table] == nil || ok && len(inner) == 0 {
		delete(m, table)
	}
	return m, err
}

// Installing and uninstalling gives back a file that means what it meant.
func TestThereAndBack(t *testing.T) {
	name := rapid.OneOf(rapid.SampledFrom([]string{
		"a", "b c", "palyra2", "ä", "x.y", "#", "\"", "mcpServers", "mcp_servers", "extensions",
		"{}",
	}), rapid.StringMatching(`[a-z]{1,6}`))
	scalar := rapid.OneOf(rapid.Custom(func(t *rapid.T) any { return name.Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "bool") }),
		rapid.SampledFrom([]any{"# x\n[mcp_servers.palyra]\n", "line\n  palyra:\n    cmd: x\n\n", "", "true", "1.50"}))
	list := rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(scalar, 0, 3).Draw(t, "list") })
	table := rapid.Custom(func(t *rapid.T) any {
		return rapid.MapOfN(name, rapid.OneOf(scalar, list), 0, 3).Draw(t, "table")
	})
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(forms).Draw(t, "form")
		m := rapid.MapOfN(name, rapid.OneOf(scalar, list, table), 0, 4).Draw(t, "file")
		delete(m, f.table)
		if rapid.Bool().Draw(t, "has a table") {
			m[f.table] = rapid.MapOfN(name, table, 1, 3).Draw(t, "servers")
		}
		doc, err := write(f.client, m, rapid.IntRange(0, 4).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		c, _ := install.Find(f.client)
		with, err := c.Merge(doc, palyraServer)
		if err != nil {
			return // install leaves it alone
		}
		out, _, err := c.Without(with)
		if err != nil {
			t.Fatalf("%v\n%s", err, with)
		}
		want, _ := meaning(doc, f.table, f.decode)
		got, err := meaning(out, f.table, f.decode)
		if diff := cmp.Diff(want, got); err != nil || diff != "" || strings.Contains(string(out), palyraServer.Command) {
			t.Fatalf("%v %s\n%s\nbecame\n%s", err, diff, doc, out)
		}
	})
}

func write(client string, m map[string]any, indent int) ([]byte, error) {
	switch client {
	case "cursor":
		return json.MarshalIndent(m, "", strings.Repeat(" ", indent))
	case "codex":
		return toml.Marshal(m)
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(max(indent, 1))
	err := enc.Encode(m)
	return []byte(b.String()), err
}

// FuzzWithout: whatever the file, the rest of it means what it meant, or nothing is done.
func FuzzWithout(f *testing.F) {
	for _, doc := range []string{
		"", "{}", `{"a":1,"mcpServers":{"palyra":` + serves + `,"b":[]}}`, `{"mcpServers" : {"b":1 , "palyra" :` + serves + " } }",
		`{"mcpServers":null}`,
		"a = 1\n[mcp_servers.palyra]\n" + tomlServe + "[mcp_servers.palyra.env]\n# c\n[x]\n",
		"extensions:\n  palyra:\n" + yamlServe + "  b:\n    c: 1\n", "extensions:\n  # c\n  {}\nb: |\n  x\n", "\r#0",
	} {
		for i := range forms {
			f.Add(doc, i)
		}
	}
	f.Fuzz(func(t *testing.T, doc string, i int) {
		form := forms[((i%len(forms))+len(forms))%len(forms)]
		c := find(t, form.client)
		out, lines, err := c.Without([]byte(doc))
		if err != nil {
			if palyra.AsError(err).Remedy == "" {
				t.Fatal(err)
			}
			return
		}
		if lines == "" && string(out) != doc {
			t.Fatalf("%q became %q", doc, out)
		}
		want, _ := meaning([]byte(doc), form.table, form.decode)
		got, err := meaning(out, form.table, form.decode)
		if err != nil || fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("%v: %q became %q", err, doc, out)
		}
		if with, err := c.Merge([]byte(doc), palyraServer); err == nil && string(with) != doc {
			back, _, err := c.Without(with)
			got, derr := meaning(back, form.table, form.decode)
			if err != nil || derr != nil || fmt.Sprint(want) != fmt.Sprint(got) {
				t.Fatalf("%v %v: %q became %q and %q", err, derr, doc, with, back)
			}
		}
	})
}
