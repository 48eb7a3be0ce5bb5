//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/stagetest"
)

func TestUpstreamUsage(t *testing.T) {
	for args, want := range map[string]string{
		"mcp add":                      "NAME is missing",
		"mcp add x":                    "give a command after --, or a URL",
		"mcp add x y z":                "a command stands after --",
		"mcp add x server":             "is no URL",
		"mcp add -- x":                 "NAME is missing",
		"mcp add x --env A -- server":  "NAME=VALUE",
		"mcp approve":                  "NAME is missing",
		"mcp import":                   "FILE is missing",
		"mcp add x y -- server":        "give a command after --, or a URL",
		"mcp import /nowhere --yes -y": "cannot be read",
	} {
		s := stagetest.Open(t, Main, nil)
		if code, out, said := alone(t, []string{"PALYRA_HOME=" + s.Home}, strings.Fields(args)...); code == exit.OK || out != "" ||
			!strings.Contains(said, want) {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, said)
		}
	}
}

// TestUpstreamCommands: every one asks the daemon for what it says, and shows what
// strangers wrote safely.
func TestUpstreamCommands(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, said := alone(t, []string{"PALYRA_HOME=" + s.Home, "NO_COLOR=1"}, args...)
		if code != want || strings.ContainsAny(out+said, "\x1b\u202e") {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, said)
		}
		return out + said
	}
	said := run(exit.OK, "mcp", "add", "files", "--workspace", s.Work+":ro", "--env", "A=b=c", "--egress", "example.com:443", "--", "server",
		"-x", "--", "y")
	if !strings.Contains(said, "files: added") || !strings.Contains(said, "palyra mcp approve files") {
		t.Error(said)
	}
	if seen := strings.Join(s.Parts.Seen(), "\n"); !strings.Contains(seen, "upstream add files") {
		t.Error(seen)
	}
	if said = run(exit.OK, "mcp", "list"); !strings.Contains(said, "1 quarantined") {
		t.Error(said)
	}
	if said = run(exit.OK, "mcp", "show", "files"); !strings.Contains(said, "Reads.") || !strings.Contains(said, "control characters") {
		t.Error(said)
	}
	digest := string(palyra.SumBytes([]byte("read")))
	if said = run(exit.OK, "mcp", "approve", "files", "read", "--digest", digest); !strings.Contains(said, "active") {
		t.Error(said)
	}
	run(exit.Failure, "mcp", "approve", "files", "read", "--digest", string(questiontest.SampleDigest))
	if said = run(exit.OK, "mcp", "show", "files"); !strings.Contains(said, "Server says") || strings.Contains(said, "Operator says") {
		t.Error(said)
	}
	if said = run(exit.OK, "mcp", "approve", "files", "--digest", digest, "--read-only", "read", "--json"); !strings.Contains(said,
		`"read_only":true`) {
		t.Error(said)
	}
	for _, other := range []string{"write", "READ", ""} {
		if said = run(exit.Failure, "mcp", "approve", "files", "--digest", digest, "--read-only", other); !strings.Contains(said,
			"not one of the tools") {
			t.Error(said)
		}
	}
	run(exit.Usage, "mcp", "approve", "files", "--json")
	if said = run(exit.Cancelled, "mcp", "approve", "files"); strings.Contains(said, "Reads.") ||
		!strings.Contains(said, "there is nobody to ask") {
		t.Errorf("pages for nobody:\n%s", said)
	}
	if said = run(exit.OK, "mcp", "remove", "files"); !strings.Contains(said, "files: removed") {
		t.Error(said)
	}
	var shapes bytes.Buffer
	for _, c := range []struct{ name, args string }{
		{"mcp add", "mcp add files --json -- server"},
		{"mcp list", "mcp list --json"},
		{"mcp show", "mcp show files --json"},
		{"mcp approve", "mcp approve files --json --digest " + digest},
		{"mcp remove", "mcp remove files --json"},
	} {
		writeShape(t, &shapes, c.name, run(exit.OK, strings.Fields(c.args)...))
	}
	questiontest.Golden(t, "shapes-mcp.txt", shapes.String())
}

func TestImport(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	file := filepath.Join(t.TempDir(), "mcp.json")
	text := `{"mcpServers":{
		"My Files":{"command":"npx","args":["-y","server"],"env":{"LEVEL":"debug"}},
		"web":{"type":"http","url":"https://example.com/mcp"},
		"old":{"type":"sse","url":"https://example.com/sse"},
		"keyed":{"url":"https://example.com","headers":{"Authorization":"Bearer x"}},
		"filled":{"command":"x","env":{"TOKEN":"${env:TOKEN}"}},
		"none":{},
		"palyra":{"command":"/usr/bin/palyra","args":["--home","/x","mcp","serve"]},
		"broken":7}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PALYRA_HOME=" + s.Home}
	want := map[string]string{
		"my-files": "added", "web": "added", "old": "refused", "keyed": "added", "filled": "refused",
		"none": "refused", "palyra": "skipped", "broken": "refused",
	}
	code, out, said := alone(t, env, "mcp", "import", file, "--yes", "--json", "--workspace", s.Work)
	var got struct {
		Servers []struct {
			Name, Outcome, Why string
			Definition         palyra.UpstreamDefinition
		} `json:"servers"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exit.OK || len(got.Servers) != len(want) {
		t.Fatalf("exit %d %v\n%s%s", code, err, out, said)
	}
	for _, g := range got.Servers {
		if g.Outcome != want[g.Name] || g.Outcome == "refused" && g.Why == "" {
			t.Errorf("%+v", g)
		}
		if d := g.Definition; g.Name == "keyed" &&
			(!slices.Equal(d.Bindings, []string{"keyed-Authorization"}) || strings.Contains(fmt.Sprint(d), "Bearer")) {
			t.Errorf("a header's value is not the vault's: %+v", g)
		}
		if g.Name == "my-files" && g.Definition.Workspace != s.Work {
			t.Errorf("%+v", g)
		}
	}
	if code, out, said := alone(t, env, "mcp", "import", file, "--print"); code != exit.OK || !strings.Contains(out, "found") ||
		!strings.Contains(out, "palyra: it is Palyra itself") || said != "" {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
	if code, _, said := alone(t, env, "mcp", "import", file, "--yes"); code != exit.OK ||
		!strings.Contains(said, "palyra mcp approve web") || !strings.Contains(said, "past the gate") {
		t.Errorf("exit %d\n%s", code, said)
	}
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"none":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, said := alone(t, env, "mcp", "import", file, "--yes"); code != exit.Failure ||
		!strings.Contains(out, "none: it has neither a command nor a url") || !strings.Contains(said, "no server was added") {
		t.Errorf("nothing was added: exit %d\n%s%s", code, out, said)
	}
	if code, _, said := alone(t, env, "mcp", "import", file, "--json"); code != exit.Usage {
		t.Errorf("exit %d\n%s", code, said)
	}
	for _, bad := range []string{
		"", "{", `{"mcpServers":{}}`, `{"mcpServers":[]}`, `[]`,
		`{"mcpServers":{"a":` + strings.Repeat(" ", 1<<20) + `{}}}`,
	} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, said := alone(t, env, "mcp", "import", file, "--yes"); code == exit.OK || !strings.Contains(said, "remedy: name a file") {
			t.Errorf("%.40q was taken, or there is no remedy: %s", bad, said)
		}
	}
}
