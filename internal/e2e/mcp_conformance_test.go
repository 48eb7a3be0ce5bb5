//go:build linux

package e2e

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// withToken stands before a server and shows its token: the conformance suite has
// no way to give one. Everything else passes as it is, also names that are not the
// server's own.
func withToken(t *testing.T, target, token string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	var own string
	seen := &exchanges{}
	t.Cleanup(func() {
		if t.Failed() { // the suite says only that there was no answer
			t.Log(seen.String())
		}
	})
	front := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1, ErrorLog: log.New(seen, "front: ", log.Lmicroseconds), ModifyResponse: seen.watch,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.URL.Path = r.In.URL.Path
			r.Out.Host = r.In.Host
			if own == "http://"+r.In.Host {
				r.Out.Host = to.Host
			}
			if origin := r.In.Header.Get("Origin"); origin == own {
				r.Out.Header.Set("Origin", "http://"+to.Host)
			}
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
	})
	own = front.URL
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return own + to.Path
}

// exchanges is what went through a front, the end of it.
type exchanges struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (e *exchanges) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, p...)
	e.text = e.text[max(0, len(e.text)-32<<10):]
	return len(p), nil
}

func (e *exchanges) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.text)
}

// watch notes an answer's head and each piece of its body.
func (e *exchanges) watch(r *http.Response) error {
	say := log.New(e, fmt.Sprintf("%s %s: ", r.Request.Method, r.Request.Header.Get("Mcp-Method")), log.Lmicroseconds)
	say.Print(r.Status, " ", r.Header.Get("Content-Type"))
	r.Body = &watchedBody{r.Body, say}
	return nil
}

type watchedBody struct {
	io.ReadCloser
	say *log.Logger
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.say.Printf("%d bytes, %v: %.60q", n, err, p[:n])
	return n, err
}

// TestConformanceOfTheProgram: the scenarios of the official suite that need no
// fixtures, against the built program as people run it. The others run against the
// same code in internal/mcp/serve.
func TestConformanceOfTheProgram(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	exe, modules := node(t)
	target, token := d.mcpHTTP()
	at := withToken(t, target, token)
	suite := filepath.Join(modules, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
	for _, c := range []struct{ scenario, revision string }{
		{"server-initialize", "2025-11-25"},
		{"ping", "2025-11-25"},
		{"tools-list", "2025-11-25"},
		{"dns-rebinding-protection", "2025-11-25"},
		{"server-session-lifecycle", "2025-11-25"},
		{"tools-list", "2026-07-28"},
		{"dns-rebinding-protection", "2026-07-28"},
		{"http-header-validation", "2026-07-28"},
		{"sep-2164-resource-not-found", "2026-07-28"},
	} {
		t.Run(c.scenario+" "+c.revision, func(t *testing.T) { // one after the other: each is a program that gives its requests little time
			// five times what it gives a scenario
			cmd := exec.CommandContext(t.Context(), exe, suite, "server", "--url", at, "--scenario", c.scenario, "--spec-version", c.revision,
				"--timeout", "150000", "-o", t.TempDir())
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "0 failed") || strings.Contains(string(out), "Passed: 0/") {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out[max(0, len(out)-200):])
		})
	}
}
