package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
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
