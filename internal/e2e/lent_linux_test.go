package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// lentValue is a token as services give them out.
const lentValue = "ghp_oNlyTheServerMaySeeThis0123456789"

// service is a server that wants a login, known to programs as bound.example and other.example.
type service struct {
	at, elsewhere string // host:port by both names
	ca            string // file with its authority
	mu            sync.Mutex
	seen          []string // a line for each request
	repos         string   // git repositories that it serves
	login         string   // of its MCP server
}

func newService(t *testing.T) *service {
	t.Helper()
	return serviceOf(t, nil)
}

// serviceOf is a service that answers by another; nil: by its own.
func serviceOf(t testing.TB, answers http.Handler) *service {
	t.Helper()
	s := &service{repos: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "outside"}, DNSNames: []string{"bound.example", "other.example"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(s.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	if answers == nil {
		answers = s
	}
	srv := httptest.NewUnstartedServer(answers)
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2", "http/1.1"}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	s.at, s.elsewhere = "bound.example:"+port, "other.example:"+port
	return s
}

// ServeHTTP notes a request, and answers with all that came: a program must not learn the value from that either.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/git/") {
		s.git(w, r)
		return
	}
	if s.registry(w, r) {
		return
	}
	if r.URL.Path == "/mcp" {
		s.mcp(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	line := fmt.Sprintf("%s %s %s %s", r.Host, r.URL, r.Header.Get("Authorization"), body)
	s.mu.Lock()
	s.seen = append(s.seen, line)
	s.mu.Unlock()
	fmt.Fprintf(w, "got %s", line)
}

// git serves repositories to whoever logs in.
func (s *service) git(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != "me" || password != lentValue {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	(&cgi.Handler{
		Path: "/usr/lib/git-core/git-http-backend", Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + s.repos, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=me", "HOME=" + s.repos},
	}).ServeHTTP(w, r)
}

// last returns what the server saw since the last call.
func (s *service) last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// lending starts the daemon with a secret, bound to a service in several ways.
func lending(t *testing.T) (*daemon, *service) {
	d, s := newDaemon(t), newService(t)
	d.ownWork()
	d.guarded(world{dns: nameServer(t)}, "PALYRA_EGRESS_ASK=off", "SSL_CERT_FILE="+s.ca)
	d.mustVault(lentValue+"\n", "put", "token", "--from-stdin")
	for name, how := range map[string]string{
		"api": "--header Authorization --env API_TOKEN", "login": "--basic --env LOGIN", "key": "--query key --env KEY",
		"field": "--body auth.token --env FIELD", "git": "--git --user me", "gone": "--header X-Gone --env GONE --secret missing",
	} {
		args := append([]string{"bind", name, "--host", s.at}, strings.Fields(how)...)
		if !strings.Contains(how, "--secret") {
			args = append(args, "--secret", "token")
		}
		d.mustVault("", args...)
	}
	return d, s
}

// using proposes a line for the shell that uses bindings.
func (d *daemon) using(bindings []string, line string, hosts ...string) client.CallRequest {
	raw, _ := json.Marshal(map[string]any{
		"command": "/bin/sh", "args": []string{"-c", line}, "bindings": bindings, "egress": append([]string{}, hosts...), "tier": "c",
	})
	return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
}

// Programs log in with a placeholder; only the server at the bound host sees the value, in the place that was bound.
func TestSecretsAreLent(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	d.put("ask.py", `import os, ssl, urllib.request, json
r = urllib.request.Request("https://`+s.at+`/py", data=json.dumps({"auth": {"token": os.environ["FIELD"]}}).encode(), headers={"Content-Type": "application/json"})
print(urllib.request.urlopen(r).read().decode())`)
	d.put("ask.js", `fetch("https://`+s.at+`/node", {headers: {Authorization: "Bearer " + process.env.API_TOKEN}}).then(r => r.text()).then(console.log)`)
	build := exec.Command("go", "build", "-o", filepath.Join(d.work, "asker"), d.put("asker.go", asker))
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.give(filepath.Join(d.work, "asker"))
	url := "https://" + s.at
	for what, c := range map[string]struct {
		bindings []string
		line     string
		want     string
	}{
		"curl":    {[]string{"api"}, `curl -sS -H "Authorization: token $API_TOKEN" ` + url + "/curl", "/curl token " + lentValue},
		"curl h1": {[]string{"api"}, `curl -sS --http1.1 --noproxy '*' -H "Authorization: $API_TOKEN" ` + url + "/h1", "/h1 " + lentValue},
		"basic":   {[]string{"login"}, `curl -sS -u "me:$LOGIN" ` + url + "/basic", "/basic Basic "},
		"query":   {[]string{"key"}, `curl -sS "` + url + `/q?key=$KEY"`, "/q?key=" + lentValue},
		"python":  {[]string{"field"}, "/usr/bin/python3 ask.py", `/py  {"auth": {"token": "` + lentValue + `"}}`},
		"node":    {[]string{"api"}, "node ask.js", "/node Bearer " + lentValue},
		"go":      {[]string{"api"}, "./asker " + url + "/go", "/go Bearer " + lentValue},
	} {
		out, a := d.allowed(d.using(c.bindings, "env; "+c.line))
		text := out.Stdout + out.Stderr + string(out.Output)
		seen := s.last()
		if out.ExitCode != 0 || len(seen) != 1 || !strings.Contains(seen[0], c.want) {
			t.Errorf("%s: %s %s\n%s\nthe server saw %q", what, out.Outcome, out.Reason, text, seen)
		}
		if strings.Contains(text, lentValue) || a.SubjectType != palyra.SubjectSecret {
			t.Errorf("%s: %s\n%s", what, a.SubjectType, text)
		}
		if e := predicate(t, out).Enforcement.Mechanisms; !slices.Contains(e, "tls_opened:"+s.at) || !slices.ContainsFunc(e, func(m string) bool {
			return strings.HasPrefix(m, "binding:"+c.bindings[0]+":")
		}) {
			t.Errorf("%s: attested are %q", what, e)
		}
	}
}

// git clones and pushes over HTTPS with a helper that knows a placeholder.
func TestSecretsAreLentToGit(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	bare := filepath.Join(s.repos, "one.git")
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", bare}, {"-C", bare, "config", "http.receivepack", "true"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, _ := d.allowed(d.using([]string{"git"}, `cd $TMPDIR; git clone -q https://`+s.at+`/git/one.git one 2>&1 && cd one && echo hello > file &&
		git add file && git -c user.name=x -c user.email=x@example.com commit -qm first && git push -q origin HEAD:main && git ls-remote origin; env`))
	text := out.Stdout + out.Stderr
	if got, err := exec.Command("git", "-C", bare, "log", "--format=%s", "main").Output(); err != nil || string(got) != "first\n" {
		t.Errorf("%q, %v\n%+v", got, err, out)
	}
	if strings.Contains(text, lentValue) {
		t.Errorf("the value is there: %s", text)
	}
	none, _ := d.allowed(d.using([]string{"api"}, `cd $TMPDIR; GIT_TERMINAL_PROMPT=0 git clone -q https://`+s.at+`/git/one.git two 2>&1`))
	if none.ExitCode == 0 {
		t.Errorf("another binding opens the repository: %+v", none)
	}
}

// A placeholder at another host, header or in a body stays one, and that is on record; a binding whose secret is not there
// gives none; what is not for a call is refused.
func TestPlaceholdersElsewhere(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	url := "https://" + s.at
	for what, line := range map[string]string{
		"header": `curl -sS -H "X-Other: $API_TOKEN" ` + url, "body": `curl -sS -d "x=$API_TOKEN" ` + url, "path": `curl -sS ` + url + `/$API_TOKEN`,
	} {
		out, _ := d.allowed(d.using([]string{"api"}, line))
		if seen := s.last(); len(seen) != 1 || strings.Contains(strings.Join(seen, ""), lentValue) || out.ExitCode != 0 {
			t.Errorf("%s: %+v %q", what, out, seen)
		}
		d.alerted(out, "placeholder_stray", "api at "+s.at)
	}
	out, _ := d.allowed(d.using([]string{"api"}, `curl -skS -H "Authorization: $API_TOKEN" https://`+s.elsewhere, s.elsewhere))
	if seen := s.last(); len(seen) != 1 || strings.Contains(seen[0], lentValue) || !strings.Contains(seen[0], "ghp_") {
		t.Errorf("another host: %+v %q", out, seen)
	}
	if out, _ = d.allowed(d.using([]string{"gone"}, `echo "<$GONE>"`)); out.Stdout != "<>\n" {
		t.Errorf("a binding without a secret: %+v", out)
	}
	d.mustVault("", "bind", "narrow", "--secret", "token", "--host", s.at, "--basic", "--workspace", t.TempDir())
	d.mustVault("", "bind", "fetch", "--secret", "token", "--host", s.at, "--basic", "--tool", "palyra.http.fetch")
	agent := d.client(client.AgentDoor)
	for _, name := range []string{"narrow", "fetch", "unknown", "../x"} {
		out, err := agent.Call(t.Context(), d.using([]string{name}, "true"), nil)
		if err != nil || out.Outcome != palyra.OutcomeRefused || out.Remedy == "" {
			t.Errorf("%s: %+v %v", name, out, err)
		}
	}
}

// What people are shown says which secret goes where; a binding that changes after the answer is another plan.
func TestLentPlansAreBound(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	a, _, ch, err := question(t.Context(), agent, person, d.using([]string{"api"}, "true"))
	if err != nil {
		t.Fatal(err)
	}
	if shown := strings.Join(a.Prompt.Notes, "\n"); !strings.Contains(shown, "token") || !strings.Contains(shown, "Authorization") ||
		!strings.Contains(shown, s.at) || !slices.Contains(a.Plan.Bindings, "api") {
		t.Errorf("shown is %q", shown)
	}
	d.mustVault("", "bind", "api", "--secret", "token", "--host", s.elsewhere, "--header", "Authorization", "--env", "API_TOKEN")
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	if end := <-ch; end.err != nil || end.out.ReasonCode != palyra.ReasonPlanChanged {
		t.Errorf("the changed binding: %+v %v", end.out, end.err)
	}
}

// A value of a .env file that is lent to the run works at its host; the others are opaque.
func TestLentValuesOfDotenv(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	d.put(".env", "API_KEY="+lentValue+"\nOTHER=another secret of this file\nPORT=8080\n")
	got := d.mustVault("", "import-env", filepath.Join(d.work, ".env"))
	if strings.Contains(got, "secret of") || strings.Contains(got, "PORT") || !strings.Contains(got, "API_KEY: kept as version 1") {
		t.Errorf("import-env: %s", got)
	}
	d.put(".env.new", "API_KEY=a value that is not to take its place\nTHIRD=a third secret of files\n")
	newer := filepath.Join(d.work, ".env.new")
	if out, errs, err := d.vault("", "import-env", newer); err == nil || !strings.Contains(errs, "API_KEY") ||
		!strings.Contains(errs, "--replace") {
		t.Errorf("over what is there: %s%s", out, errs)
	}
	if out, errs, err := d.vault("", "get", "THIRD"); err == nil {
		t.Errorf("something was kept all the same: %s%s", out, errs)
	}
	if out := d.mustVault("", "import-env", newer, "--only", "THIRD"); !strings.Contains(out, "THIRD: kept as version 1") {
		t.Errorf("the other one: %s", out)
	}
	if out := d.mustVault("", "import-env", newer, "--replace"); !strings.Contains(out, "API_KEY: kept as version 2") {
		t.Errorf("in its place: %s", out)
	}
	if got := d.mustVault("", "get", "API_KEY", "--version", "1"); got != lentValue+"\n" {
		t.Errorf("the older version is %q", got)
	}
	if got := d.mustVault("", "get", "OTHER"); got != "another secret of this file\n" {
		t.Errorf("imported is %q", got)
	}
	out, _ := d.allowed(d.using([]string{"login"}, `. ./.env; cat .env; curl -sS -u "me:$API_KEY" https://`+s.at+`/env`))
	seen := s.last()
	if len(seen) != 1 || !strings.Contains(seen[0], "/env Basic "+base64.StdEncoding.EncodeToString([]byte("me:"+lentValue))) {
		t.Errorf("%+v\nthe server saw %q", out, seen)
	}
	said := out.Stdout
	if strings.Contains(said, lentValue) || strings.Contains(said, "another secret") || !strings.Contains(said, "PORT=8080") {
		t.Errorf("printed is %s", said)
	}
}

// asker is a program that asks for a URL with a token.
const asker = `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	r, _ := http.NewRequest("GET", os.Args[1], nil)
	r.Header.Set("Authorization", "Bearer "+os.Getenv("API_TOKEN"))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, _ = io.Copy(os.Stdout, res.Body)
}
`
