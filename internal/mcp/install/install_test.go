package install_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/mcp/install"
)

var palyraServer = install.Server{Command: "/opt/palyra/bin/palyra", Args: []string{"mcp", "serve"}}

func find(t testing.TB, name string) install.Client {
	t.Helper()
	c, ok := install.Find(name)
	if !ok {
		t.Fatal("no client " + name)
	}
	return c
}

const jsonEntry = `"palyra": {
      "args": [
        "mcp",
        "serve"
      ],
      "command": "/opt/palyra/bin/palyra"
    }`

func TestMerge(t *testing.T) {
	for _, c := range []struct{ name, client, old, want string }{
		{"new", "cursor", "", "{\n  \"mcpServers\": {\n    " + jsonEntry + "\n  }\n}\n"},
		{
			"others stay as they are", "cursor", `{"n": 1.50, "mcpServers": {"x": {"command":"y"}}, "z": "<&>"}`,
			"{\"n\": 1.50, \"mcpServers\": {\n    " + jsonEntry + ",\"x\": {\"command\":\"y\"}}, \"z\": \"<&>\"}",
		},
		{
			"an old one is replaced", "cursor", `{"mcpServers":{"palyra":{"command":"old"},"x":{}}}`,
			`{"mcpServers":{` + jsonEntry[:9] + strings.TrimPrefix(jsonEntry[9:], " ") + `,"x":{}}}`,
		},
		{
			"toml", "codex", "model = \"o\"\n[mcp_servers.x]\ncommand = \"y\" # why\n",
			"model = \"o\"\n[mcp_servers.x]\ncommand = \"y\" # why\n\n[mcp_servers.palyra]\nargs = ['mcp', 'serve']\ncommand = " +
				"'/opt/palyra/bin/palyra'\ndefault_tools_approval_mode = 'approve'\ntool_timeout_sec = 120\n",
		},
		{
			"toml, an old one", "codex", "[mcp_servers.palyra]\ncommand = 'old'\n[b]\nc = 1\n",
			"[mcp_servers.palyra]\nargs = ['mcp', 'serve']\ncommand = '/opt/palyra/bin/palyra'\ndefault_tools_approval_mode = " +
				"'approve'\ntool_timeout_sec = 120\n\n[b]\nc = 1\n",
		},
		{
			"yaml", "goose", "# mine\nextensions:\n  dev:\n    enabled: true\nGOOSE_MODE: auto\n",
			"# mine\nextensions:\n  palyra:\n    args: [\"mcp\",\"serve\"]\n    cmd: \"/opt/palyra/bin/palyra\"\n    description: \"Tools " +
				"behind Palyra's gate\"\n    enabled: true\n    name: \"palyra\"\n    timeout: 300\n    type: \"stdio\"\n  dev:\n    enabled: " +
				"true\nGOOSE_MODE: auto\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := find(t, c.client)
			got, err := client.Merge([]byte(c.old), palyraServer)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			again, err := client.Merge(got, palyraServer)
			if err != nil || string(again) != string(got) {
				t.Errorf("the second time: %v\n%s", err, again)
			}
		})
	}
}

func TestMergeRefusesWhatItCannotRead(t *testing.T) {
	for _, c := range []struct{ client, old string }{
		{"vscode", "{\n  // mine\n  \"servers\": {}\n}"},
		{"cursor", `{"mcpServers":[]}`},
		{"cursor", `[]`},
		{"cursor", `{} {}`},
		{"cursor", `{"a":`},
		{"cursor", `{"mcpServers":{},"mcpServers":{}}`},
		{"codex", "a = "},
		{"codex", "mcp_servers = 1"},
		{"codex", "mcp_servers = {palyra = {command = 'x'}}"},
		{"codex", "x = '''\n[mcp_servers.palyra]\n'''\n"},
		{"goose", "a: [1"},
		{"goose", "extensions: {dev: {enabled: true}}\n"},
		{"goose", "extensions:\n    dev:\n        enabled: true\n"},
		{"goose", "- a\n"},
	} {
		if got, err := find(t, c.client).Merge([]byte(c.old), palyraServer); err == nil || palyra.AsError(err).Remedy == "" {
			t.Errorf("%s %q: %v\n%s", c.client, c.old, err, got)
		}
	}
}

func TestWrite(t *testing.T) {
	for _, c := range install.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			home := t.TempDir()
			path, err := c.Path(install.Places{Home: home, Config: filepath.Join(home, ".config")}, "")
			if err != nil {
				t.Fatal(err)
			}
			first, err := c.Write(path, palyraServer)
			if err != nil || !first.Changed || first.Backup != "" {
				t.Fatalf("%+v %v", first, err)
			}
			lines, err := c.Lines(palyraServer)
			raw, rerr := os.ReadFile(path)
			if err != nil || rerr != nil || string(raw) != lines {
				t.Errorf("%v %v\n%s\n%s", err, rerr, raw, lines)
			}
			if again, err := c.Write(path, palyraServer); err != nil || again.Changed || again.Backup != "" {
				t.Errorf("the second time: %+v %v", again, err)
			}
			other := install.Server{Command: "/elsewhere", Args: []string{"--home", "/h", "mcp", "serve"}}
			moved, err := c.Write(path, other)
			if err != nil || !moved.Changed || moved.Backup != "" { // before Palyra there was no file
				t.Fatalf("%+v %v", moved, err)
			}
		})
	}
}

func TestWriteKeepsModeAndRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(path, []byte("{}"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, "cursor").Write(path, palyraServer); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, "cursor").Write(link, palyraServer); err == nil {
		t.Error("a link was written through")
	}
}

func TestPathInWorkspace(t *testing.T) {
	for name, want := range map[string]string{
		"claude-code": ".mcp.json", "codex": ".codex/config.toml", "cursor": ".cursor/mcp.json",
		"vscode": ".vscode/mcp.json",
	} {
		if got, err := find(t, name).Path(install.Places{}, "/w"); err != nil || got != filepath.Join("/w", want) {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	if _, err := find(t, "goose").Path(install.Places{}, "/w"); err == nil {
		t.Error("goose has a file in a workspace")
	}
}

// FuzzMerge: whatever the file, the rest of it means what it meant.
func FuzzMerge(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":1,"mcpServers":{"palyra":1,"b":[]}}`, "{\"mcpServers\" : null }", "{ }\n"} {
		f.Add(s)
	}
	c := find(f, "cursor")
	f.Fuzz(func(t *testing.T, doc string) {
		out, err := c.Merge([]byte(doc), palyraServer)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		_ = json.Unmarshal([]byte(doc), &before)
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for k, v := range before {
			if k != "mcpServers" && string(after[k]) != string(v) {
				t.Fatalf("%q became %q", v, after[k])
			}
		}
	})
}
