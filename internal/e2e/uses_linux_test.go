package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/agent/agenttest"
)

// fetching proposes a request that uses bindings.
func (d *daemon) fetching(bindings []string, args map[string]any) client.CallRequest {
	args["bindings"] = bindings
	raw, _ := json.Marshal(args)
	return client.CallRequest{Tool: "palyra.http.fetch", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
}

// used returns what is on record of the uses of a call's secrets: binding, host and count of each.
func (d *daemon) used(by string) (all []string) {
	for _, e := range d.entries() {
		if e.Kind == "secret.used" && (e.Body["call_id"] == by || e.Body["upstream"] == by || e.Body["provider"] == by) {
			all = append(all, fmt.Sprintf("%v at %v %v", e.Body["binding"], e.Body["host"], e.Body["count"]))
		}
	}
	return all
}

// unseen fails where the journal, the log or an outcome has the value.
func (d *daemon) unseen(what string, all ...any) {
	d.t.Helper()
	text, _ := json.Marshal(append(all, d.entries(), d.log.String()))
	for _, form := range []string{lentValue, base64.RawStdEncoding.EncodeToString([]byte(lentValue))} {
		if i := strings.Index(string(text), form); i >= 0 {
			d.t.Errorf("%s: the value is there: …%s", what, text[max(0, i-200):i])
		}
	}
}

// A request that the daemon itself makes has the value in the place that was bound, at the bound host; neither the plan
// nor the journal nor the answer has it.
func TestFetchUsesBindings(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	url := "https://" + s.at
	header := func(v string) map[string]string { return map[string]string{"Authorization": v} }
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+lentValue))
	for what, c := range map[string]struct {
		binding string
		args    map[string]any
		want    string
	}{
		"header by itself": {"api", map[string]any{"url": url + "/h"}, "/h Bearer " + lentValue},
		"header":           {"api", map[string]any{"url": url + "/h", "headers": header("token {{api}}")}, "/h token " + lentValue},
		"basic":            {"login", map[string]any{"url": url + "/b", "headers": header("Basic me:{{login}}")}, "/b " + basic},
		"git":              {"git", map[string]any{"url": url + "/g"}, "/g " + basic},
		"query":            {"key", map[string]any{"url": url + "/q?a=1&key={{key}}"}, "/q?a=1&key=" + lentValue},
		"query, escaped":   {"key", map[string]any{"url": url + "/q?key=%7B%7Bkey%7D%7D"}, "/q?key=" + lentValue},
		"json": {"field", map[string]any{
			"url": url + "/j", "method": "POST", "body": `{"auth":{"token":"{{field}}"}}`,
			"headers": map[string]string{"Content-Type": "application/json"},
		}, `/j  {"auth":{"token":"` + lentValue + `"}}`},
	} {
		out, a := d.allowed(d.fetching([]string{c.binding}, c.args))
		if seen := s.last(); out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 || len(seen) != 1 || !strings.Contains(seen[0], c.want) {
			t.Errorf("%s: %+v\nthe server saw %q", what, out, seen)
		}
		if shown := strings.Join(a.Prompt.Notes, "\n"); a.SubjectType != palyra.SubjectSecret || !slices.Contains(a.Plan.Bindings, c.binding) ||
			!strings.Contains(shown, s.at) || !strings.Contains(shown, "token") {
			t.Errorf("%s: asked was %s %q", what, a.SubjectType, shown)
		}
		if e := predicate(t, out).Enforcement.Mechanisms; !slices.Contains(e, "egress_guard") || !slices.ContainsFunc(e, func(m string) bool {
			return strings.HasPrefix(m, "binding:"+c.binding+":")
		}) {
			t.Errorf("%s: attested are %q", what, e)
		}
		if got := d.used(string(out.CallID)); !slices.Equal(got, []string{c.binding + " at " + s.at + " 1"}) {
			t.Errorf("%s: on record is %q", what, got)
		}
		d.unseen(what, out, a)
	}
	if out, err := d.palyra("journal", "verify").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Wherever an answer is cut off, no part of a value that the server sent back is delivered.
func TestFetchedAnswersHaveNoPartOfAValue(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	for _, most := range []int{60, 70, 80, 90} {
		out, _ := d.allowed(d.fetching([]string{"api"}, map[string]any{"url": "https://" + s.at + "/cut", "max_bytes": most}))
		seen := s.last()
		at := strings.Index("got "+strings.Join(seen, ""), lentValue)
		if len(seen) != 1 || at < 0 {
			t.Fatalf("the server saw %q: %+v", seen, out)
		}
		if strings.Contains(string(out.Output), lentValue[4:10]) {
			t.Errorf("%d bytes, the value from %d: %s", most, at, out.Output)
		}
	}
}

// A placeholder that stands elsewhere stays one, and is on record; what a binding is not for is refused before anything is
// asked, with what to do.
func TestFetchKeepsToBindings(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	url := "https://" + s.at
	for what, args := range map[string]map[string]any{
		"header": {"url": url, "headers": map[string]string{"X-Other": "{{api}}"}}, "path": {"url": url + "/{{api}}"},
		"body": {"url": url, "method": "POST", "body": "x={{api}}"},
	} {
		out, _ := d.allowed(d.fetching([]string{"api"}, args))
		seen := strings.Join(s.last(), "\n")
		if out.ExitCode != 0 || strings.Count(seen, lentValue) > 1 || !strings.Contains(seen, "Bearer "+lentValue) {
			t.Errorf("%s: %+v %q", what, out, seen)
		}
		d.alerted(out, "placeholder_stray", "api at "+s.at)
	}
	d.mustVault("", "bind", "narrow", "--secret", "token", "--host", s.at, "--basic", "--workspace", t.TempDir())
	d.mustVault("", "bind", "shell", "--secret", "token", "--host", s.at, "--basic", "--tool", "palyra.process.run")
	d.mustVault("", "bind", "up", "--secret", "token", "--host", s.at, "--upstream", "Authorization")
	agent := d.client(client.AgentDoor)
	for what, c := range map[string]struct {
		bindings []string
		args     map[string]any
	}{
		"another host":  {[]string{"api"}, map[string]any{"url": "https://" + s.elsewhere}},
		"no TLS":        {[]string{"api"}, map[string]any{"url": "http://" + s.at}},
		"no secret":     {[]string{"gone"}, map[string]any{"url": url}},
		"unknown":       {[]string{"unknown"}, map[string]any{"url": url}},
		"workspace":     {[]string{"narrow"}, map[string]any{"url": url}},
		"tool":          {[]string{"shell"}, map[string]any{"url": url}},
		"for upstreams": {[]string{"up"}, map[string]any{"url": url}},
		"two at once":   {[]string{"api", "login"}, map[string]any{"url": url}},
		"no place":      {[]string{"key"}, map[string]any{"url": url}},
		"not named":     {[]string{}, map[string]any{"url": url, "headers": map[string]string{"Authorization": "Bearer {{api}}"}}},
	} {
		out, err := agent.Call(t.Context(), d.fetching(c.bindings, c.args), nil)
		if err != nil || out.Outcome != palyra.OutcomeRefused || out.Remedy == "" {
			t.Errorf("%s: %+v %v", what, out, err)
		}
	}
	if seen := s.last(); len(seen) > 0 {
		t.Errorf("the server saw %q", seen)
	}
}

// An agent's own room has placeholders as any program's has.
func TestAgentsRoomsUseBindings(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	raw, _ := json.Marshal(map[string]any{
		"command": "/bin/sh", "args": []string{"-c", `env; curl -sS -H "Authorization: Bearer $API_TOKEN" https://` + s.at + "/agent"},
		"bindings": []string{"api"}, "tier": "c", "agent_socket": true,
	})
	out, a := d.allowed(client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI})
	if seen := s.last(); out.ExitCode != 0 || len(seen) != 1 || !strings.Contains(seen[0], "/agent Bearer "+lentValue) {
		t.Errorf("%+v\nthe server saw %q", out, seen)
	}
	if got := d.used(string(out.CallID)); !slices.Equal(got, []string{"api at " + s.at + " 1"}) || a.SubjectType != palyra.SubjectSecret {
		t.Errorf("on record is %q, asked was %s", got, a.SubjectType)
	}
	d.unseen("agent", out, a)
	help, err := d.palyra("agent", "run", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "--secret") {
		t.Errorf("%v\n%s", err, help)
	}
}

// mcp is an MCP server at the service, for those who log in.
func (s *service) mcp(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Header.Get("Authorization"))
	want := s.login
	s.mu.Unlock()
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if r.Header.Get("Authorization") != "Bearer "+want {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `{"content":[{"type":"text","text":"your token is ` + want + `"}]}`
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"far","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// A server behind a URL gets the value from the daemon, as it is when a request is sent; a locked vault keeps the server
// from being used, says why, and lets the rest go on.
func TestUpstreamsUseBindings(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	s.login = lentValue
	d.mustVault("", "bind", "far", "--secret", "token", "--host", s.at, "--upstream", "Authorization")
	d.mustVault("", "bind", "away", "--secret", "token", "--host", s.elsewhere, "--upstream", "Authorization")
	d.mustVault("", "bind", "lost", "--secret", "missing", "--host", s.at, "--upstream", "Authorization")
	person := d.client(client.OperatorDoor)
	def := palyra.UpstreamDefinition{Transport: palyra.TransportHTTP, URL: "https://" + s.at + "/mcp"}
	for _, name := range []string{"away", "lost", "unknown", "key"} {
		def.Bindings = []string{name}
		if u, err := person.AddUpstream(t.Context(), "no", def, true); err == nil || palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: %+v %v", name, u, err)
		}
	}
	if seen := s.last(); len(seen) > 0 {
		t.Errorf("the server saw %q", seen)
	}
	if out, err := d.palyra("mcp", "add", "far", "--approve", "--secret", "far", "https://"+s.at+"/mcp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, d.log)
	}
	out, a := d.allowed(mcpCall("mcp.far.ask", map[string]any{}))
	if !strings.Contains(string(out.Output), "your token is") || !slices.Equal(a.Plan.Bindings, []string{"far"}) ||
		a.SubjectType != palyra.SubjectSecret {
		t.Errorf("%+v, asked was %s %q", out, a.SubjectType, a.Plan.Bindings)
	}
	if e := predicate(t, out).Enforcement.Mechanisms; !slices.ContainsFunc(e, func(m string) bool {
		return strings.HasPrefix(m, "binding:far:")
	}) {
		t.Errorf("attested are %q", e)
	}
	d.unseen("upstream", out, a)

	const next = "ghp_theNextValueOfThisToken987654321"
	d.mustVault(next+"\n", "put", "token", "--from-stdin")
	s.mu.Lock()
	s.login = next
	s.mu.Unlock()
	again, err := d.client(client.AgentDoor).Call(t.Context(), mcpCall("mcp.far.ask", map[string]any{}), nil) // by the lease
	if err != nil || !strings.Contains(string(again.Output), "your token is") {
		t.Errorf("with the next value: %+v %v", again, err)
	}
	if err := person.RemoveUpstream(t.Context(), "far"); err != nil {
		t.Fatal(err)
	}
	if got := d.used("far"); len(got) != 1 || !strings.HasPrefix(got[0], "far at "+s.at) {
		t.Errorf("on record is %q", got)
	}
}

// The program of a server finds a placeholder; the value goes in on the way to the bound host. A vault whose key is gone
// keeps it from starting, and says why.
func TestUpstreamProgramsUseBindings(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	d.mustVault("", "bind", "up", "--secret", "token", "--host", s.at, "--upstream", "Authorization", "--env", "API_TOKEN")
	d.mustVault("", "bind", "noenv", "--secret", "token", "--host", s.at, "--upstream", "Authorization")
	script := d.put("server.py", strings.Replace(serverScript, `    if name == "pid"`, `    if name == "pid":
        import urllib.request
        r = urllib.request.Request("https://`+s.at+`/up", headers={"Authorization": "Bearer " + os.environ["API_TOKEN"]})
        return text(os.environ["API_TOKEN"] + urllib.request.urlopen(r).read().decode())
    if name == "never"`, 1))
	person := d.client(client.OperatorDoor)
	def := palyra.UpstreamDefinition{
		Transport: palyra.TransportStdio, Command: []string{"python3", script}, Workspace: d.work, Bindings: []string{"noenv"},
	}
	if u, err := person.AddUpstream(t.Context(), "up", def, true); err == nil || !strings.Contains(palyra.AsError(err).Remedy, "--env") {
		t.Errorf("%+v %v", u, err)
	}
	def.Bindings = []string{"up"}
	if _, err := person.AddUpstream(t.Context(), "up", def, true); err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	out, a := d.allowed(mcpCall("mcp.up.pid", map[string]any{}))
	if seen := s.last(); len(seen) != 1 || !strings.Contains(seen[0], "/up Bearer "+lentValue) || a.SubjectType != palyra.SubjectSecret {
		t.Errorf("%+v, asked was %s\nthe server saw %q", out, a.SubjectType, seen)
	}
	d.unseen("program", out, a)
	agent := d.client(client.AgentDoor)
	if no, err := agent.Call(t.Context(), d.using([]string{"up"}, "true"), nil); err != nil || no.Outcome != palyra.OutcomeRefused {
		t.Errorf("an agent uses what is for a server: %+v %v", no, err)
	}
	keys, err := filepath.Glob(filepath.Join(d.home, "keys", "vault-*.key"))
	if err != nil || len(keys) == 0 {
		t.Fatalf("%v %v", keys, err)
	}
	env := d.env
	d.stop()
	if err := os.Chmod(keys[0], 0o644); err != nil { // its keeper refuses it then
		t.Fatal(err)
	}
	d.mustStart(env...)
	if got := d.used("up"); len(got) != 1 || !strings.HasPrefix(got[0], "up at "+s.at) {
		t.Errorf("on record is %q", got)
	}
	agent = d.client(client.AgentDoor)
	no, err := agent.Call(t.Context(), mcpCall("mcp.up.pid", map[string]any{}), nil)
	locked := []palyra.Reason{palyra.ReasonVaultLocked, palyra.ReasonUnsafePermissions}
	if err != nil || no.Outcome != palyra.OutcomeRefused || !slices.Contains(locked, no.ReasonCode) || no.Remedy == "" {
		t.Errorf("with a locked vault: %+v %v", no, err)
	}
	if yes, err := agent.Call(t.Context(), echo("still here"), nil); err != nil || yes.Outcome != palyra.OutcomeFinished {
		t.Errorf("the rest: %+v %v", yes, err)
	}
	if err := os.Chmod(keys[0], 0o600); err != nil {
		t.Fatal(err)
	}
	d.stop()
	d.mustStart(env...)
	yes, err := d.client(client.AgentDoor).Call(t.Context(), mcpCall("mcp.up.pid", map[string]any{}), nil) // by the lease
	if err != nil || !strings.Contains(string(yes.Output), "got ") {
		t.Errorf("with its key again: %+v %v", yes, err)
	}
}

// The key of a provider of models comes from the vault when it is needed, goes to the bound host only, and the next one is
// used as soon as it is there.
func TestProvidersUseBindings(t *testing.T) {
	t.Parallel()
	const next = "sk-e2e-next-0123456789abcdef"
	s := agenttest.New(t, agenttest.Reply{Text: []string{"first"}}, agenttest.Reply{Text: []string{"second"}})
	at := strings.TrimPrefix(s.URL, "http://")
	d := newDaemon(t)
	config := "[providers.stub]\nkind = \"openai\"\nbase_url = \"" + s.URL +
		"/v1\"\nkey_binding = \"stub-key\"\n\n[models]\ndefault = \"stub/tiny\"\n"
	d.write(filepath.Join(d.home, "config.toml"), config, 0o600)
	d.mustStart()
	failed := func(what, want string) {
		t.Helper()
		r, tape := d.told(d.askModel("go").ID)
		if text := fmt.Sprintf("%+v %s", r, tapeText(tape)); r.State != palyra.RunFailed || !strings.Contains(text, want) {
			t.Errorf("%s: %s", what, text)
		}
	}
	failed("no binding", "there is no binding stub-key")
	d.mustVault(modelKey+"\n", "put", "model", "--from-stdin")
	d.mustVault("", "bind", "stub-key", "--secret", "model", "--host", at, "--header", "Authorization")
	failed("another kind", "not for a provider")
	d.mustVault("", "bind", "stub-key", "--secret", "model", "--host", "127.0.0.1:1", "--provider")
	failed("another host", "is for 127.0.0.1:1")
	d.mustVault("", "bind", "stub-key", "--secret", "model", "--host", at, "--provider")
	if len(s.Seen()) > 0 {
		t.Errorf("the server was asked: %+v", s.Seen())
	}
	for i, key := range []string{modelKey, next} {
		d.mustVault(key+"\n", "put", "model", "--from-stdin")
		r, tape := d.told(d.askModel("go").ID)
		if seen := s.Seen(); r.State != palyra.RunDone || len(seen) != i+1 || seen[i].Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("%+v %q %+v", r, said(tape), seen)
		}
	}
	if got := d.used("stub"); !slices.Equal(got, []string{"stub-key at " + at + " 1", "stub-key at " + at + " 1"}) {
		t.Errorf("on record is %q", got)
	}
	agent := d.client(client.AgentDoor)
	if no, err := agent.Call(t.Context(), d.using([]string{"stub-key"}, "true"), nil); err != nil || no.Outcome != palyra.OutcomeRefused {
		t.Errorf("an agent uses the key: %+v %v", no, err)
	}
	keys, _ := filepath.Glob(filepath.Join(d.home, "keys", "vault-*.key"))
	d.stop()
	d.discreet()
	if err := os.Chmod(keys[len(keys)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	d.mustStart()
	failed("a locked vault", "vault")
}

// Keys in plain files come into the vault by one command, and what names them is changed at once; until then, and after
// being cut off, the configuration works.
func TestKeysAreAdopted(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Reply{Text: []string{"one"}}, agenttest.Reply{Text: []string{"two"}})
	d := newDaemon(t)
	d.withModel("openai", s)
	conf, file := filepath.Join(d.home, "config.toml"), filepath.Join(filepath.Dir(d.home), "model.key")
	before, _ := os.ReadFile(conf)
	d.mustStart()
	if out, _ := d.palyra("status").CombinedOutput(); !strings.Contains(string(out), "palyra vault adopt") {
		t.Errorf("the status does not warn:\n%s", out)
	}
	if out := d.mustVault("", "adopt", "--dry-run"); !strings.Contains(out, "providers.stub") || strings.Contains(out, modelKey) {
		t.Errorf("dry run: %s", out)
	}
	if now, _ := os.ReadFile(conf); string(now) != string(before) || strings.TrimSpace(d.mustVault("", "list", "--json")) != `{"secrets":[]}` {
		t.Errorf("the dry run changed something:\n%s\n%s", now, d.mustVault("", "list", "--json"))
	}
	d.mustVault("a key that somebody put\n", "put", "provider-stub", "--from-stdin")
	if out := d.mustVault("", "adopt"); !strings.Contains(out, "left as it is") || !strings.Contains(out, "--replace") {
		t.Errorf("over what is there: %s", out)
	}
	if now, _ := os.ReadFile(conf); string(now) != string(before) || d.mustVault("", "get", "provider-stub") != "a key that somebody put\n" {
		t.Errorf("the refusal changed something:\n%s", now)
	}
	if out := d.mustVault("", "adopt", "--replace"); strings.Contains(out, modelKey) || !strings.Contains(out, "provider-stub, version 2") {
		t.Errorf("adopt: %s", out)
	}
	now, _ := os.ReadFile(conf)
	if !strings.Contains(string(now), `key_binding = "provider-stub"`) || strings.Contains(string(now), "key_file") {
		t.Errorf("the configuration is\n%s", now)
	}
	if r, _ := d.told(d.askModel("go").ID); r.State != palyra.RunDone { // the running daemon still has the file
		t.Errorf("%+v", r)
	}
	d.stop()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	d.mustStart()
	r, _ := d.told(d.askModel("go").ID)
	if seen := s.Seen(); r.State != palyra.RunDone || len(seen) != 2 || seen[1].Header.Get("Authorization") != "Bearer "+modelKey {
		t.Errorf("%+v %+v", r, seen)
	}
	if out := d.mustVault("", "adopt"); !strings.Contains(out, "no key lies in a plain file") {
		t.Errorf("once more: %s", out)
	}
	if out, _ := d.palyra("status").CombinedOutput(); strings.Contains(string(out), "vault adopt") {
		t.Errorf("the status still warns:\n%s", out)
	}
	d.stop()
	d.discreet()
}

// tapeText is what a tape says, for looking into.
func tapeText(tape []palyra.TapeEntry) string {
	text, _ := json.Marshal(tape)
	return string(text)
}
