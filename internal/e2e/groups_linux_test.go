package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// registries are those of npm and pip, on this machine under names of their own.
type registries struct {
	dns, port string
	hits      atomic.Int64
}

func (r *registries) at(name string) string  { return net.JoinHostPort(name+".example", r.port) }
func (r *registries) url(name string) string { return "http://" + r.at(name) }

// newRegistries serves a package named thing: to npm at npm.example; to pip at index.example, with its file at files.example.
func newRegistries(t testing.TB) *registries {
	t.Helper()
	r := &registries{dns: nameServer(t)}
	pack, wheel := npmPackage(t), pipPackage(t)
	sum := sha512.Sum512(pack)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		host, _, _ := net.SplitHostPort(req.Host)
		r.hits.Add(1)
		switch host + req.URL.Path {
		case "npm.example/thing":
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": "thing", "dist-tags": map[string]string{"latest": "1.0.0"},
				"versions": map[string]any{"1.0.0": map[string]any{
					"name": "thing", "version": "1.0.0",
					"dist": map[string]string{
						"tarball": r.url("npm") + "/thing/-/thing-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
					},
				}},
			})
		case "npm.example/thing/-/thing-1.0.0.tgz":
			_, _ = w.Write(pack)
		case "index.example/simple/thing/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<a href="%s/thing-1.0.0-py3-none-any.whl">thing-1.0.0-py3-none-any.whl</a>`, r.url("files"))
		case "files.example/thing-1.0.0-py3-none-any.whl":
			_, _ = w.Write(wheel)
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(srv.Close)
	_, r.port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return r
}

// npmPackage is the package as npm takes it.
func npmPackage(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"thing","version":"1.0.0","main":"index.js"}`, "package/index.js": "module.exports = 'the thing';\n",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("cannot pack")
	}
	return out.Bytes()
}

// pipPackage is the same as pip takes it.
func pipPackage(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	const info = "thing-1.0.0.dist-info/"
	for name, text := range map[string]string{
		"thing.py": "said = 'the thing'\n", info + "METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0.0\n",
		info + "WHEEL":  "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD": "thing.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	} {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// groups writes the operator's groups into the configuration.
func (d *daemon) groups(all map[string][]string) {
	d.t.Helper()
	text := "[groups]\n"
	for name, hosts := range all {
		raw, _ := json.Marshal(hosts)
		text += name + " = " + string(raw) + "\n"
	}
	if err := os.WriteFile(filepath.Join(d.home, "config.toml"), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// reachable are the settings under which names lead to the registries.
func (r *registries) reachable() []string {
	return append(slices.Clone(shipped), "PALYRA_EGRESS_RESOLVER="+r.dns, "PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8")
}

// installs runs npm and pip of a workspace twice each. Every question is answered by the word given; it returns how
// many there were, and fails unless every install reached its registry.
type installs struct {
	t      testing.TB
	r      *registries
	palyra func(args ...string) *exec.Cmd
	work   string
}

func (i installs) questions() []palyra.Approval {
	i.t.Helper()
	var page struct {
		Approvals []palyra.Approval `json:"approvals"`
	}
	out, err := i.palyra("approvals", "list", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &page)
	}
	if err != nil {
		i.t.Fatalf("%v\n%s", err, out)
	}
	return page.Approvals
}

// run runs a script and answers what is asked by a word, once for each question.
func (i installs) run(word, script string) {
	i.t.Helper()
	before := i.r.hits.Load()
	cmd := i.palyra("exec", "--no-stdin", "--workspace", i.work, "--", "sh", "-c", script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		i.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for answered := map[palyra.ApprovalID]bool{}; ; {
		select {
		case err := <-ended:
			if err != nil || !strings.Contains(out.String(), "the thing") || i.r.hits.Load() == before {
				i.t.Fatalf("%s: %v after %d requests:\n%s", script, err, i.r.hits.Load()-before, out.String())
			}
			return
		case <-time.After(200 * time.Millisecond): // to ask takes a process, beside which packages are installed
		}
		for _, a := range i.questions() {
			if a.Pending() && !answered[a.ID] {
				answered[a.ID] = true
				if said, err := i.palyra("approvals", "decide", string(a.ID), word, "--digest", string(a.PlanDigest)).CombinedOutput(); err != nil {
					i.t.Fatalf("%s: %v\n%s", a.Prompt.Summary, err, said)
				}
			}
		}
	}
}

// twice installs by npm and by pip, each anew a second time.
func (i installs) twice() {
	i.t.Helper()
	npm := "export NPM_CONFIG_REGISTRY=" + i.r.url("npm") + " NPM_CONFIG_AUDIT=false; " +
		"rm -rf node_modules; npm install --prefer-online thing && node -p 'require(\"thing\")'"
	pip := "export PIP_INDEX_URL=" + i.r.url("index") + "/simple PIP_TRUSTED_HOST='index.example files.example'; " +
		"test -d .venv || /usr/bin/python3 -m venv --copies .venv; " + // links to the system's Python would be asked about
		".venv/bin/pip install --no-cache-dir --force-reinstall thing && .venv/bin/python -c 'import thing; print(thing.said)'"
	for _, c := range []struct {
		name, script string
		want         int
	}{{"npm", npm, 1}, {"npm again", npm, 1}, {"pip", pip, 2}, {"pip again", pip, 2}} {
		i.run("allow-group", c.script)
		if all := i.questions(); len(all) != c.want {
			i.t.Errorf("%s: %d questions by now, want %d", c.name, len(all), c.want)
			for _, a := range all {
				i.t.Logf("%s: %s\n%s", a.Prompt.Summary, a.Prompt.Explanation, a.Prompt.Covers)
			}
		}
	}
}

// Packages are installed by npm and by pip as often as one likes, by one answer each, as root's daemon and as an
// ordinary user's.
func TestPackagesAreInstalledByOneAnswer(t *testing.T) {
	t.Parallel()
	d, r := newDaemon(t), newRegistries(t)
	d.ownWork()
	d.groups(map[string][]string{"node-mirror": {r.at("npm")}, "python-mirror": {r.at("index"), r.at("files")}})
	d.mustStart(r.reachable()...)
	d.inWorkspace()
	installs{t, r, d.palyra, d.work}.twice()
	said, err := d.palyra("leases", "list").CombinedOutput()
	for _, want := range []string{"node-mirror", r.at("npm"), "python-mirror", d.work} {
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("the list of leases does not say %s: %v\n%s", want, err, said)
		}
	}
	d.verify()
}

func TestPackagesAreInstalledByOneAnswerWithAnOrdinaryUsersDaemon(t *testing.T) {
	t.Parallel()
	d, r := newDaemon(t), newRegistries(t)
	d.groups(map[string][]string{"node-mirror": {r.at("npm")}, "python-mirror": {r.at("index"), r.at("files")}})
	as := d.ordinary(r.reachable()...)
	palyra := func(args ...string) *exec.Cmd { return as("palyra", args...) }
	if out, err := palyra("workspace", "add", d.work).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	installs{t, r, palyra, d.work}.twice()
}

// reaching is a program that may reach hosts and only says so.
func (d *daemon) reaching(workspace string, hosts ...string) client.CallRequest {
	c := d.inRoom(map[string]any{"egress": hosts}, "echo", "reached")
	c.Workspace, c.NoWait = workspace, true
	return c
}

// An answer for a group covers what it says and nothing beside it.
func TestAnAnswerForAGroupCoversNothingElse(t *testing.T) {
	d, r := newDaemon(t), newRegistries(t)
	d.ownWork()
	elsewhere := filepath.Join(d.work, "..", "elsewhere")
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	d.give(elsewhere)
	d.groups(map[string][]string{"mirror": {r.at("npm"), r.at("index")}})
	d.mustStart(r.reachable()...)
	d.inWorkspace()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(t.Context(), elsewhere, ""); err != nil {
		t.Fatal(err)
	}
	worker := d.agentCalled("worker")

	first := d.reaching(d.work, r.at("npm"))
	first.NoWait = false
	a, _, ch, err := question(t.Context(), agent, person, first)
	if err != nil {
		t.Fatal(err)
	}
	decide := d.palyra("approvals", "decide", string(a.ID), "allow-group", "--digest", string(a.PlanDigest))
	if out, err := decide.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if end := <-ch; end.err != nil || end.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%v %+v", end.err, end.out)
	}
	unasked := func(what string, c *client.Client, r client.CallRequest, want bool) palyra.Outcome {
		t.Helper()
		out, err := c.Call(t.Context(), r, nil)
		if err != nil || want != (out.Outcome == palyra.OutcomeFinished) || !want && out.ReasonCode != palyra.ReasonApprovalNotAwaited {
			t.Errorf("%s: %v %s %s %s", what, err, out.Outcome, out.ReasonCode, out.Reason)
		}
		return out
	}
	in := func(session string, r client.CallRequest) client.CallRequest {
		r.Session = session
		return r
	}
	with := func(r client.CallRequest, more map[string]any) client.CallRequest {
		var args map[string]any
		_ = json.Unmarshal(r.Arguments, &args)
		for k, v := range more {
			args[k] = v
		}
		r.Arguments, _ = json.Marshal(args)
		return r
	}
	why := func(workspace string) string {
		said, err := d.palyra("policy", "why", "--workspace", workspace, "--egress", r.at("index"), "--", "echo", "reached").CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, said)
		}
		return string(said)
	}
	if said := why(d.work); !strings.Contains(said, "all it reaches is of the group mirror") || !strings.Contains(said, r.at("index")) {
		t.Errorf("why: %s", said)
	}
	_, port, _ := net.SplitHostPort(r.at("npm"))
	post, _ := json.Marshal(map[string]any{"url": r.url("npm") + "/thing", "method": "POST", "body": "x"})
	npm := d.reaching(d.work, r.at("npm"))
	covered := unasked("the same host", agent, npm, true)
	unasked("the other host of the group", agent, d.reaching(d.work, r.at("index")), true)
	unasked("both", agent, d.reaching(d.work, r.at("index"), r.at("npm")), true)
	unasked("another session", agent, in("another", npm), true)
	unasked("another program", agent, with(npm, map[string]any{"command": "true", "args": []string{}}), true)
	checkEvidence(t, d, person, covered)

	unasked("another workspace", agent, d.reaching(elsewhere, r.at("npm")), false)
	unasked("another agent", worker, npm, false)
	unasked("a host beside the group", agent, d.reaching(d.work, r.at("files")), false)
	unasked("one of them and one beside", agent, d.reaching(d.work, r.at("npm"), r.at("files")), false)
	unasked("another port", agent, d.reaching(d.work, "npm.example:1"), false)
	unasked("names below", agent, d.reaching(d.work, "*.npm.example:"+port), false)
	upload := client.CallRequest{Tool: "palyra.http.fetch", Arguments: post, Surface: palyra.SurfaceCLI, NoWait: true}
	unasked("an upload by the fetch tool", agent, upload, false)
	curl := with(npm, map[string]any{"command": "curl", "args": []string{"-d", "x", r.url("npm")}})
	unasked("a program that is asked about offline", agent, curl, false)
	unasked("one that writes directly", agent, with(npm, map[string]any{"live": true}), false)
	unasked("one that cannot be taken back", agent, with(npm, map[string]any{"command": "git", "args": []string{"push", "--force"}}), false)

	leases, err := person.Leases(t.Context(), client.LeaseFilter{})
	if err != nil || len(leases.Leases) != 1 || leases.Leases[0].Terms.Group != "mirror" || !leases.Leases[0].Terms.GroupDigest.Valid() {
		t.Fatalf("%v %+v", err, leases)
	}

	d.stop() // the group grows, and then shrinks: the answer is for what both have
	d.groups(map[string][]string{"mirror": {r.at("npm"), r.at("index"), r.at("files")}})
	d.mustStart(r.reachable()...)
	agent = d.client(client.AgentDoor)
	unasked("a host of before, in a grown group", agent, npm, true)
	unasked("a host that the group has now", agent, d.reaching(d.work, r.at("files")), false)
	d.stop()
	d.groups(map[string][]string{"mirror": {r.at("index")}})
	d.mustStart(r.reachable()...)
	agent, person = d.client(client.AgentDoor), d.client(client.OperatorDoor)
	unasked("a host that the group has no more", agent, npm, false)
	unasked("one that it still has", agent, d.reaching(d.work, r.at("index")), true)

	if _, err := person.RevokeLease(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	unasked("after it was revoked", agent, d.reaching(d.work, r.at("index")), false)
	d.verify()
}

// The pages of a host are one answer for a session; sending to it, and other hosts, are asked about.
func TestPagesOfAHostAreAskedAboutOnce(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.guarded(w, shipped...)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	fetch := func(session string, args map[string]any) client.CallRequest {
		raw, _ := json.Marshal(args)
		return client.CallRequest{Tool: "palyra.http.fetch", Arguments: raw, Surface: palyra.SurfaceCLI, Session: session}
	}
	first := fetch("reading", map[string]any{"url": "http://" + w.web + "/one"})
	a, _, ch, err := question(t.Context(), agent, person, first)
	if err != nil {
		t.Fatal(err)
	}
	decide := d.palyra("approvals", "decide", string(a.ID), "allow-host", "--digest", string(a.PlanDigest))
	if out, err := decide.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if end := <-ch; end.err != nil || end.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%v %+v", end.err, end.out)
	}
	_, port, _ := net.SplitHostPort(w.web)
	for _, c := range []struct {
		what    string
		request client.CallRequest
		unasked bool
	}{
		{"another page", fetch("reading", map[string]any{"url": "http://" + w.web + "/two"}), true},
		{"sending", fetch("reading", map[string]any{"url": "http://" + w.web + "/two", "method": "POST", "body": "x"}), false},
		{"another host", fetch("reading", map[string]any{"url": "http://other.example:" + port + "/"}), false},
		{"another session", fetch("other", map[string]any{"url": "http://" + w.web + "/two"}), false},
	} {
		c.request.NoWait = true
		out, err := agent.Call(t.Context(), c.request, nil)
		if err != nil || c.unasked != (out.Outcome == palyra.OutcomeFinished) || !c.unasked && out.ReasonCode != palyra.ReasonApprovalNotAwaited {
			t.Errorf("%s: %v %s %s", c.what, err, out.Outcome, out.Reason)
		}
		if c.unasked {
			checkEvidence(t, d, person, out)
		}
	}
	d.verify()
}
