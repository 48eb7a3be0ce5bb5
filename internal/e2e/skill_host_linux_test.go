package e2e

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/wasm"
	"palyra/internal/wasm/wasmtest"
)

// publisherKey is a publisher of tests.
func publisherKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, 32))
}

// signed packs a skill and signs it; more is what of its manifest follows the description.
func signed(t testing.TB, n byte, id, more string, modules map[string]wasm.Module) []byte {
	t.Helper()
	files := map[string][]byte{skill.ManifestName: []byte(fmt.Sprintf(
		"format = \"palyra-manifest/1\"\nid = %q\nversion = \"1.0.0\"\npublisher = \"p%d\"\ndescription = \"A test.\"\n%s", id, n, more))}
	for name, m := range modules {
		b, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	raw, err := archive.Pack(files)
	if err != nil {
		t.Fatal(err, palyra.AsError(err).Remedy)
	}
	p, err := archive.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = archive.Sign(p, publisherKey(n)); err != nil {
		t.Fatal(err)
	}
	return raw
}

// tool is a tool of a manifest.
func tool(name, module, more string) string {
	const schema = "input_schema = '{\"type\":\"object\"}'"
	return fmt.Sprintf("[[tools]]\nname = %q\ndescription = \"x\"\nmodule = %q\n%s\n%s\n", name, module, schema, more)
}

// trusts trusts a publisher of tests.
func (u user) trusts(n byte) (keyID string) {
	u.t.Helper()
	pub := publisherKey(n).Public().(ed25519.PublicKey)
	u.palyra(new(any), "skills", "trust", "add", fmt.Sprintf("p%d", n), archive.PublicText(pub))
	return archive.KeyID(pub)
}

// installs puts a package into a file and installs it, with what is granted; none: all.
func (u user) installs(id string, raw []byte, granted ...string) {
	u.t.Helper()
	u.palyra(new(any), "skills", "install", u.put("packages/"+id+".skill", string(raw)))
	if len(granted) == 0 {
		granted = []string{"--all"}
	}
	u.palyra(new(any), append([]string{"skills", "enable", id}, granted...)...)
}

// proposes calls a skill's tool, whatever becomes of that.
func (u user) proposes(tool, input string, flags ...string) palyra.Outcome {
	u.t.Helper()
	args := []string{"tools", "call", tool, "--json", "--no-wait", "--input", input, "--workspace", u.work}
	return u.proposed(u.as("palyra", append(args, flags...)...))
}

func (u user) proposed(cmd *exec.Cmd) (o palyra.Outcome) {
	u.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		u.t.Fatalf("%v: %v\n%s%s\n%s", cmd.Args, err, out.String(), errs.String(), u.log)
	}
	return o
}

// didStep is what a step of the guest came to.
type didStep struct {
	Code   int64
	Handle int64
	Text   string
}

// reason is why it was refused.
func (s didStep) reason() palyra.Reason {
	var why struct {
		Reason palyra.Reason `json:"reason_code"`
	}
	_ = json.Unmarshal([]byte(s.Text), &why)
	return why.Reason
}

// steps has the guest do something, and says what came of it.
func (u user) steps(id string, steps ...string) (palyra.Outcome, []didStep) {
	u.t.Helper()
	o := u.proposes("skill."+id+".steps", `{"steps":[`+strings.Join(steps, ",")+`]}`)
	var all []didStep
	if o.Layer == palyra.LayerPolicy || o.Layer == palyra.LayerApproval {
		why, _ := u.as("palyra", "policy", "why", string(o.CallID)).CombinedOutput()
		u.t.Fatalf("%s: %s", o.Reason, why)
	}
	if o.ReasonCode == "" {
		if err := json.Unmarshal(o.Output, &all); err != nil || len(all) != len(steps) {
			u.t.Fatalf("%v: %s %s", err, o.Output, o.Stderr)
		}
	}
	return o, all
}

// doStep is a step of the guest, of pairs of members and values.
func doStep(do string, pairs ...any) string {
	m := map[string]any{"do": do}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, _ := json.Marshal(m)
	return string(b)
}

func fetching(host, url string, headers map[string]string) string {
	b, _ := json.Marshal(map[string]any{"method": "GET", "url": url, "headers": headers})
	return doStep("http_request", "kind", "http", "name", host, "a", string(b))
}

// permits puts policies into force beside those that ask, without those that ask because of what the session did.
func (u user) permits(rules string) {
	u.t.Helper()
	files := defaultWith(u.t, rules)
	delete(files, "labels.cedar")
	for name, text := range files {
		u.put("bundle/"+name, text)
	}
	u.palyra(new(any), "policy", "apply", filepath.Join(u.work, "bundle"))
}

// permitSkills has skills run unasked, and what they ask for judged.
const permitSkills = `@id("skills") @reason("tests") permit (principal, action == Action::"tool.execute", resource) when { resource.source == "skill" };
@id("skills-too") @reason("tests") permit (principal, action == Action::"skill.execute", resource);
`

// TestSkillsReachWhatTheyWereGranted: every host call of a module through a daemon that runs, with what was granted and with
// what was not.
func TestSkillsReachWhatTheyWereGranted(t *testing.T) {
	t.Parallel()
	d, s := newDaemon(t), newService(t)
	d.ownWork()
	d.guarded(world{dns: nameServer(t)}, append([]string{"PALYRA_EGRESS_ASK=off", "SSL_CERT_FILE=" + s.ca}, unlimited...)...)
	d.rooted().reaching(s)
	d.verify()
	d.nowhere(lentValue)
}

func TestSkillsOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	d, s := newDaemon(t), newService(t)
	d.give(s.ca)
	env := []string{
		"PALYRA_EGRESS_ASK=off", "SSL_CERT_FILE=" + s.ca, "PALYRA_EGRESS_RESOLVER=" + nameServer(t), "PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8",
	}
	user{d, d.ordinary(append(env, unlimited...)...)}.reaching(s)
}

// reaching is the story of both.
func (u user) reaching(s *service) {
	t := u.t
	t.Helper()
	elsewhere := strings.Replace(s.at, "bound", "denied", 1)
	name, port, _ := strings.Cut(elsewhere, ":")
	u.permits(permitSkills + fmt.Sprintf(`@id("pages") @reason("tests") permit (principal, action in Action::"call", resource)
when { context has parent && !context.egress.isEmpty() };
@id("not-there") @reason("tests") @remedy("none") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.http.fetch")
when { context.egress.contains({host: %q, port: %s}) };`, name, port))
	u.must([]byte(lentValue+"\n"), "vault", "put", "token", "--from-stdin")
	for _, name := range []string{"api", "other"} {
		u.must(nil, "vault", "bind", name, "--secret", "token", "--host", s.at, "--header", "Authorization", "--env", "API_TOKEN")
	}
	guest := map[string]wasm.Module{"guest.wasm": wasmtest.Guest(t)}
	asks := func(storage string) string {
		return tool("steps", "guest.wasm", "") + fmt.Sprintf(`[capabilities]
hosts = [%q, %q, %q]
secrets = ["api"]
storage = [%q]
tools = ["palyra.echo", "palyra.fs.write", "palyra.fs.read"]
`, s.at, s.elsewhere, elsewhere, storage)
	}
	u.trusts(1)
	u.trusts(2)
	u.installs("probe", signed(t, 1, "probe", asks("notes/"), guest), "--grant", "hosts:"+s.at, "--grant", "hosts:"+elsewhere,
		"--grant", "secrets:api",
		"--grant", "storage:notes/", "--grant", "tools:palyra.echo", "--grant", "tools:palyra.fs.write")
	u.installs("second", signed(t, 1, "second", asks("notes/"), guest))
	u.installs("third", signed(t, 2, "third", asks("notes/"), guest))
	u.web(s, elsewhere)
	u.storage()
	u.otherTools()
	u.handles()
}

// web is what a module gets from hosts, with a secret that it never sees.
func (u user) web(s *service, elsewhere string) {
	t := u.t
	t.Helper()
	o, all := u.steps("probe",
		doStep("secret_use", "kind", "secret", "name", "api"),
		fetching(s.at, "https://"+s.at+"/with", map[string]string{"Authorization": "Bearer {{api}}"}),
		doStep("find", "a", lentValue[:9], "b", lentValue[9:]),
		fetching(s.at, "https://"+s.at+"/without", map[string]string{"X-Key": "{{api}}"}),
		fetching(s.at, "https://"+s.at+"/other", map[string]string{"X-Key": "{{other}}"}),
	)
	seen := s.last()
	if len(all) != 5 || len(seen) != 3 || !strings.Contains(seen[0], "/with Bearer "+lentValue) ||
		strings.Contains(seen[1]+seen[2], lentValue) {
		t.Fatalf("%+v\nthe server saw %q\n%s", all, seen, o.Reason)
	}
	var answer struct {
		Status int
		Body   []byte
	}
	if err := json.Unmarshal([]byte(all[1].Text), &answer); err != nil || answer.Status != 200 ||
		!strings.Contains(string(answer.Body), "got ") ||
		strings.Contains(string(answer.Body), lentValue) {
		t.Errorf("%v %s", err, all[1].Text)
	}
	if all[2].Text != "0" || bytes.Contains(o.Output, []byte(lentValue[9:])) ||
		bytes.Contains(o.Output, []byte(base64.StdEncoding.EncodeToString([]byte(lentValue))[:20])) {
		t.Errorf("the value came into the module: found %s times, and said %s", all[2].Text, o.Output)
	}
	p := predicate(t, o)
	if got := p.Runtime; !slices.Contains(got.Used, "secrets:api") || !slices.Contains(got.Used, "hosts:"+s.at) || slices.Contains(got.Granted,
		"hosts:"+s.elsewhere) || len(got.Refused) != 0 {
		t.Errorf("%+v", got)
	}
	for what, c := range map[string]struct {
		steps []string
		want  palyra.Reason
	}{
		"a host that is not in the manifest": {[]string{fetching("evil.example:443", "https://evil.example/", nil)}, ""},
		"a host that was not granted":        {[]string{fetching(s.elsewhere, "https://"+s.elsewhere+"/", nil)}, ""},
		"a secret that is not in the manifest": {
			[]string{doStep("secret_use", "kind", "secret", "name", "other")}, "",
		},
		"another host by a granted one": {[]string{fetching(s.at, "https://evil.example/", nil)}, wasm.ReasonNotGranted},
		"a host that policy denies":     {[]string{fetching(elsewhere, "https://"+elsewhere+"/", nil)}, palyra.ReasonPolicyDenied},
		"without TLS": {
			[]string{doStep("secret_use", "kind", "secret", "name", "api"), fetching(s.at, "http://"+s.at+"/", nil)},
			palyra.ReasonMalformedInput,
		},
		"a header that only bindings may set": {
			[]string{fetching(s.at, "https://"+s.at+"/", map[string]string{"Authorization": "Bearer x"})},
			palyra.ReasonMalformedInput,
		},
	} {
		o, all := u.steps("probe", c.steps...)
		if seen := s.last(); len(seen) != 0 {
			t.Errorf("%s: the server saw %q", what, seen)
		}
		reason := wasm.ReasonNotGranted
		if c.want == "" { // there is no handle, and a call without one ends it
			if o.ReasonCode != wasm.ReasonHandle {
				t.Errorf("%s: %+v %s", what, all, o.ReasonCode)
			}
		} else if reason = c.want; all[len(all)-1].Code != -1 || all[len(all)-1].reason() != c.want {
			t.Errorf("%s: %+v %s", what, all, o.Reason)
		}
		u.onRecord(what, o, reason)
	}
}

// onRecord holds the journal, the attestation and 'palyra policy why' to a refused host call.
func (u user) onRecord(what string, o palyra.Outcome, reason palyra.Reason) {
	u.t.Helper()
	if r := predicate(u.t, o).Runtime; r == nil || !slices.ContainsFunc(r.Refused, func(l string) bool {
		return strings.HasPrefix(l, string(reason)+" ")
	}) {
		u.t.Errorf("%s: attested is %+v", what, r)
	}
	out, err := u.as("palyra", "policy", "why", string(o.CallID)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "was refused ("+string(reason)+")") {
		u.t.Errorf("%s: why says %s", what, out)
	}
	if reason != wasm.ReasonNotGranted && reason != wasm.ReasonHandle {
		return // on record as a call of its own, or of no interest
	}
	lines, err := u.as("palyra", "journal", "tail", "--kind", "alert.raised").CombinedOutput()
	if err != nil || !strings.Contains(string(lines), string(o.CallID)) || !strings.Contains(string(lines), string(reason)) {
		u.t.Errorf("%s: the journal has %s", what, lines)
	}
}

// storage is what a module keeps, which no other skill finds.
func (u user) storage() {
	t := u.t
	t.Helper()
	at := func(do string, more ...any) string {
		return doStep(do, append([]any{"kind", "storage", "name", "notes/"}, more...)...)
	}
	_, all := u.steps("probe", at("kv_put", "a", "k/1", "b", "one"), at("kv_put", "a", "k/2", "b", "two"), at("kv_list", "a", "k/", "n", 10),
		at("kv_get", "a", "k/1"), at("kv_delete", "a", "k/2"), at("kv_get", "a", "k/2"), at("kv_get", "a", "../k/1"))
	if len(all) != 7 || all[2].Text != `["k/1","k/2"]` || all[3].Text != "one" || all[5].Code != -2 || all[6].Code != -2 {
		t.Errorf("%+v", all)
	}
	for _, other := range []string{"second", "third"} {
		if _, all := u.steps(other, at("kv_get", "a", "k/1"), at("kv_list", "n", 10)); len(all) != 2 || all[0].Code != -2 || all[1].Text != "[]" {
			t.Errorf("%s sees what probe kept: %+v", other, all)
		}
	}
	for _, prefix := range []string{"other/", "", "notes/k/", "p1/probe/notes/"} {
		o, _ := u.steps("probe", doStep("kv_get", "kind", "storage", "name", prefix, "a", "k/1"))
		if o.ReasonCode != wasm.ReasonHandle {
			t.Errorf("the prefix %q: %s", prefix, o.ReasonCode)
		}
	}
	u.palyra(new(any), "skills", "remove", "probe")
	guest := map[string]wasm.Module{"guest.wasm": wasmtest.Guest(t)}
	again := signed(t, 1, "probe", tool("steps", "guest.wasm", "")+"[capabilities]\nstorage = [\"notes/\"]\n"+
		"tools = [\"palyra.echo\", \"palyra.fs.write\", \"palyra.fs.read\"]\n", guest)
	u.installs("probe", again, "--grant", "storage:notes/", "--grant", "tools:palyra.echo", "--grant", "tools:palyra.fs.write")
	if _, all := u.steps("probe", at("kv_get", "a", "k/1")); all[0].Text != "one" {
		t.Errorf("what it kept is gone with its package: %+v", all)
	}
	u.palyra(new(any), "skills", "remove", "probe", "--forget")
	u.installs("probe", again, "--grant", "storage:notes/", "--grant", "tools:palyra.echo", "--grant", "tools:palyra.fs.write")
	if _, all := u.steps("probe", at("kv_get", "a", "k/1")); all[0].Code != -2 {
		t.Errorf("what it kept is there although it was forgotten: %+v", all)
	}
}

// otherTools is what a module calls: each judged, asked about and on record for itself.
func (u user) otherTools() {
	t := u.t
	t.Helper()
	call := func(name string, args map[string]any) string {
		b, _ := json.Marshal(args)
		return doStep("tool_call", "kind", "tool", "name", name, "a", string(b))
	}
	write := call("palyra.fs.write", map[string]any{"path": "by-a-skill.txt", "content": "hello"})
	cmd := u.as("palyra", "tools", "call", "skill.probe.steps", "--json", "--workspace", u.work, "--input",
		`{"steps":[`+call("palyra.echo", map[string]any{"text": "x"})+`,`+write+`,`+call("palyra.echo", map[string]any{"nothing": 1})+`]}`)
	done := make(chan palyra.Outcome, 1)
	go func() { done <- u.proposed(cmd) }()
	a := u.answerFor(palyra.ScopeOnce, func() {})
	o := <-done
	if a.Plan.Tool != "palyra.fs.write" || !strings.Contains(fmt.Sprintf("%+v", a), "probe") {
		t.Errorf("people are asked %+v", a.Prompt)
	}
	var all []didStep
	if err := json.Unmarshal(o.Output, &all); err != nil {
		t.Fatal(err, o.Reason)
	}
	for i, want := range []palyra.OutcomeKind{palyra.OutcomeFinished, palyra.OutcomeFinished, palyra.OutcomeRefused} {
		var child palyra.Outcome
		if err := json.Unmarshal([]byte(all[i].Text), &child); err != nil || child.Outcome != want {
			t.Errorf("step %d: %v %+v", i, err, all[i])
			continue
		}
		var kept palyra.Call
		u.palyra(&kept, "calls", "show", string(child.CallID))
		if kept.Proposal.Parent != o.CallID || kept.Proposal.CallsUsed != int64(i+1) {
			t.Errorf("on record is %+v", kept.Proposal)
		}
	}
	for _, name := range []string{"palyra.fs.read", "palyra.process.run", "palyra.egress.allow", "skill.second.steps", "palyra.http.fetch"} {
		if o, _ := u.steps("probe", call(name, map[string]any{})); o.ReasonCode != wasm.ReasonHandle {
			t.Errorf("%s: %s", name, o.ReasonCode)
		}
	}
	if u.cmd == nil { // once is enough: it takes a while
		return
	}
	storm := u.proposes("skill.probe.steps", `{"steps":[`+doStep("storm", "n", 5000, "name", "palyra.echo", "a", `{"text":"x"}`)+`]}`, "--timeout", "60s")
	if storm.ReasonCode != wasm.ReasonHostCalls {
		t.Errorf("a storm of calls ends with %s: %s", storm.ReasonCode, storm.Reason)
	}
}

// handles that were guessed, or were of another call, end it; clock, randomness and log work.
func (u user) handles() {
	t := u.t
	t.Helper()
	o, all := u.steps("probe", doStep("clock", "kind", "clock"), doStep("random", "kind", "random", "n", 16),
		doStep("log", "kind", "log", "a", "a line", "n", 1),
		doStep("handle", "kind", "storage", "name", "notes/"))
	if len(all) != 4 || all[0].Code < 1e18 || len(all[1].Text) != 32 || all[1].Text == strings.Repeat("0", 32) ||
		!strings.Contains(o.Stderr, "info: a line") {
		t.Fatalf("%+v %s", all, o.Stderr)
	}
	for what, h := range map[string]int64{"guessed": 12345, "of an earlier call": all[3].Handle, "of nothing": -1} {
		o, _ := u.steps("probe", doStep("kv_get", "handle", h, "a", "x"))
		if o.ReasonCode != wasm.ReasonHandle || o.Remedy == "" {
			t.Errorf("%s: %+v", what, o)
		}
		u.onRecord(what, o, wasm.ReasonHandle)
	}
	if labels := u.labelsOf(o); !slices.Contains(labels, palyra.LabelUntrusted) || !slices.Contains(labels, palyra.LabelSent) ||
		!slices.Contains(labels, palyra.LabelSecret) {
		t.Errorf("the session's labels are %v", labels)
	}
}

func (u user) labelsOf(o palyra.Outcome) []string {
	u.t.Helper()
	var s palyra.Session
	u.palyra(&s, "sessions", "show", string(o.SessionID))
	return s.Labels
}
