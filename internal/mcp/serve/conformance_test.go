package serve_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/mcp/serve"
)

// node is where Node and the official test programs are.
func node(t *testing.T) (bin, modules string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../../scripts/node.sh", "../../e2e/mcp-node").Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		t.Fatalf("scripts/node.sh: %v: %q", err, out)
	}
	return lines[0], lines[1]
}

const testToken = "a-token-for-tests-only-0123"

// outcomeText puts the token to every request: the suite has no way to give one.
func outcomeText(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+testToken)
		h.ServeHTTP(w, r)
	})
}

// conformant serves the suite's fixtures by the code that serves Palyra's tools.
func conformant(t *testing.T) string {
	t.Helper()
	s := server(t, newDaemon(), func(c *serve.Config) {
		c.Poll = time.Hour
		c.Options = func(o *mcp.ServerOptions) {
			o.Capabilities = nil
			o.CompletionHandler = func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
				return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
			}
			o.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
			o.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
		}
	})
	addFixtures(s.MCP())
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler(l.Addr().String(), palyra.NewSecret([]byte(testToken)))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: outcomeText(h)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
		for session := range s.MCP().Sessions() {
			_ = session.Close()
		}
	})
	return "http://" + l.Addr().String() + serve.Path
}

var (
	total    = regexp.MustCompile(`(?m)^Total: (\d+) passed, (\d+) failed`)
	scenario = regexp.MustCompile(`(?m)^([✓✗]) (\S+): (\d+) passed, (\d+) failed`)
)

// TestConformance: the official suite, its default one and that of the current
// revision. Both meet one server at one address.
func TestConformance(t *testing.T) {
	bin, modules := node(t)
	for _, c := range []struct {
		name           string
		args           []string
		scenarios      int
		passed         int // checks
		unscoredFailed string
	}{
		{"default", nil, 31, 73, ""},
		{"current revision", []string{"--requirements", "2026-07-28"}, 50, 165, "tasks-"}, // the tasks extension is not scored
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{
				filepath.Join(modules, "node_modules/@modelcontextprotocol/conformance/dist/index.js"), "server", "--url",
				conformant(t), "-o", t.TempDir(),
			}, c.args...)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "node"), args...)
			cmd.Env, cmd.Dir = append(os.Environ(), "NO_COLOR=1"), t.TempDir()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			found := scenario.FindAllStringSubmatch(string(out), -1)
			if len(found) != c.scenarios {
				t.Errorf("%d scenarios ran, want %d\n%s", len(found), c.scenarios, out)
			}
			for _, m := range found {
				if m[4] != "0" && (c.unscoredFailed == "" || !strings.HasPrefix(m[2], c.unscoredFailed)) {
					t.Errorf("%s: %s checks failed\n%s", m[2], m[4], out)
				}
			}
			sum := total.FindStringSubmatch(string(out))
			if sum == nil || sum[1] != fmt.Sprint(c.passed) {
				t.Errorf("total %v, want %d passed\n%s", sum, c.passed, out)
			}
			t.Logf("%d scenarios, %s", len(found), sum[0])
		})
	}
}
