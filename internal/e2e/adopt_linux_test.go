package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/secrets"
)

// A variable of an MCP server's definition comes into the vault by one command: the server finds a placeholder, its value
// goes in at the bound host, what was approved stays so, and one command takes it back.
func TestVariablesAreAdopted(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	const plain = "plain value of the issue tracker" // which does not look like a secret
	s.login = plain
	script := d.put("server.py", strings.Replace(serverScript, `    if name == "pid"`, `    if name == "pid":
        import urllib.request
        r = urllib.request.Request("https://`+s.at+`/up", headers={"Authorization": "Bearer " + os.environ["ISSUES_LOGIN"]})
        return text(os.environ["ISSUES_LOGIN"] + urllib.request.urlopen(r).read().decode() + os.environ["LEVEL"])
    if name == "never"`, 1))
	person := d.client(client.OperatorDoor)
	def := palyra.UpstreamDefinition{
		Transport: palyra.TransportStdio, Command: []string{"python3", script}, Workspace: d.work,
		Env: map[string]string{"ISSUES_LOGIN": plain, "LEVEL": "debug"},
	}
	was, err := person.AddUpstream(t.Context(), "up", def, true)
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	for _, to := range []string{"up.ISSUES_LOGIN", "up.ISSUES_LOGIN=host", "up.OTHER=" + s.at, "down.ISSUES_LOGIN=" + s.at} {
		if out, errs, err := d.vault("", "adopt", "--to", to); err == nil {
			t.Errorf("--to %s: %s%s", to, out, errs)
		}
	}
	if out := d.mustVault("", "adopt", "--to", "up.ISSUES_LOGIN="+s.at, "--dry-run"); !strings.Contains(out, "would become") {
		t.Errorf("%s", out)
	}
	if u, err := person.Upstream(t.Context(), "up", false); err != nil || u.Digest != was.Digest {
		t.Errorf("the dry run changed it: %+v, %v", u, err)
	}
	d.mustVault("a value of somebody else\n", "put", "up-ISSUES_LOGIN", "--from-stdin")
	if out := d.mustVault("", "adopt", "--to", "up.ISSUES_LOGIN="+s.at); !strings.Contains(out, "there is a secret up-ISSUES_LOGIN already") {
		t.Errorf("over somebody else's: %s", out)
	}
	if all, err := person.Secrets(t.Context()); err != nil || slices.ContainsFunc(all, func(i secrets.Info) bool { return i.Version != 1 }) {
		t.Errorf("somebody else's: %+v, %v", all, err)
	}
	d.mustVault("", "delete", "up-ISSUES_LOGIN")
	said := d.mustVault("", "adopt", "--to", "up.ISSUES_LOGIN="+s.at)
	if strings.Contains(said, plain) || !strings.Contains(said, "up-ISSUES_LOGIN") {
		t.Errorf("adopt: %s", said)
	}
	u, err := person.Upstream(t.Context(), "up", false)
	if err != nil || len(u.Env) != 1 || u.Env["LEVEL"] != "debug" || !slices.Equal(u.Bindings, []string{"up-ISSUES_LOGIN"}) {
		t.Fatalf("%+v, %v", u, err)
	}
	for i, tool := range u.Tools {
		if tool.State != was.Tools[i].State || tool.Pinned != was.Tools[i].Pinned {
			t.Errorf("%s was %s, and is %s", tool.Name, was.Tools[i].State, tool.State)
		}
	}
	out, a := d.allowed(mcpCall("mcp.up.pid", map[string]any{}))
	if seen := s.last(); len(seen) != 1 || !strings.Contains(seen[0], "/up Bearer "+plain) || a.SubjectType != palyra.SubjectSecret {
		t.Errorf("%+v, asked was %s\nthe server saw %q", out, a.SubjectType, seen)
	}
	if text, _ := json.Marshal(out); strings.Contains(string(text), plain) {
		t.Errorf("the program had it: %s", text)
	}
	agent := d.client(client.AgentDoor)
	no, err := agent.Call(t.Context(), d.using([]string{"up-ISSUES_LOGIN"}, "true"), nil)
	if err != nil || no.Outcome != palyra.OutcomeRefused {
		t.Errorf("an agent uses what is for a server: %+v %v", no, err)
	}
	if out := d.mustVault("", "adopt"); strings.Contains(out, "ISSUES_LOGIN") {
		t.Errorf("once more: %s", out)
	}
	env := d.env
	d.stop()
	d.mustStart(env...)
	d.verify()
	if out := d.mustVault("", "adopt", "--back", "up"); strings.Contains(out, plain) || !strings.Contains(out, "is in the definition again") {
		t.Errorf("back: %s", out)
	}
	u, err = d.client(client.OperatorDoor).Upstream(t.Context(), "up", false)
	if err != nil || u.Digest != was.Digest || len(u.Tools) != len(was.Tools) || u.Tools[0].State != was.Tools[0].State {
		t.Errorf("it is not as it was: %+v, %v", u, err)
	}
	if _, errs, err := d.vault("", "adopt", "--back", "up"); err == nil || !strings.Contains(errs, "no variable") {
		t.Errorf("twice: %s", errs)
	}
	if out := d.mustVault("", "bindings"); strings.Contains(out, "up-ISSUES_LOGIN") {
		t.Errorf("it is still bound: %s", out)
	}
	d.verify()
}

// Servers with headers in a client's file come in with them: the value goes into the vault, and Palyra sends it. A server
// that cannot be added leaves no secret behind.
func TestHeadersAreImported(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	s.login = lentValue
	file := filepath.Join(t.TempDir(), "mcp.json")
	text := `{"mcpServers":{
		"far":{"url":"https://` + s.at + `/mcp","headers":{"authorization":"Bearer ` + lentValue + `"}},
		"gone":{"url":"https://` + s.at + `/nothing","headers":{"X-Api-Key":"another value of a key"}},
		"open":{"url":"http://` + s.at + `/mcp","headers":{"X-Api-Key":"another value of a key"}},
		"basic":{"url":"https://` + s.at + `/mcp","headers":{"Authorization":"Basic YWRhOnRoZSBwYXNzd29yZA=="}},
		"filled":{"url":"https://` + s.at + `/mcp","headers":{"X-Api-Key":"${KEY}"}}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := d.palyra("mcp", "import", file, "--yes", "--approve", "--json").CombinedOutput()
	if err != nil || strings.Contains(string(out), lentValue) || strings.Contains(string(out), "another value") {
		t.Fatalf("%v\n%s", err, out)
	}
	all, err := d.client(client.OperatorDoor).Upstreams(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "far" || !slices.Equal(all[0].Bindings, []string{"far-Authorization"}) {
		t.Fatalf("%+v, %v\n%s", all, err, out)
	}
	if list := d.mustVault("", "list"); !strings.Contains(list, "far-Authorization") || strings.Contains(list, "gone-") {
		t.Errorf("in the vault are\n%s", list)
	}
	if list := d.mustVault("", "bindings"); !strings.Contains(list, "far-Authorization") || strings.Contains(list, "gone-") {
		t.Errorf("bound are\n%s", list)
	}
	got, _ := d.allowed(mcpCall("mcp.far.ask", map[string]any{}))
	if !strings.Contains(string(got.Output), "your token is") || strings.Contains(string(got.Output), lentValue) {
		t.Errorf("%+v", got)
	}
	d.keepsNot(lentValue, "another value of a key")
}
