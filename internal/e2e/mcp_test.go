//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// node is where Node and the official MCP programs are.
func node(t testing.TB) (bin, modules string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../scripts/node.sh", "mcp-node")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		t.Fatalf("scripts/node.sh: %v: %q", err, out)
	}
	return filepath.Join(lines[0], "node"), lines[1]
}

// mcpArgs starts the server of a daemon for a client on its pipes.
func (d *daemon) mcpArgs(more ...string) []string {
	return append([]string{"--home", d.home, "mcp", "serve", "--workspace", d.work}, more...)
}

// mcpHTTP starts the server for clients over HTTP.
func (d *daemon) mcpHTTP(more ...string) (url, token string) {
	d.t.Helper()
	args := append([]string{"--json", "--quiet"}, d.mcpArgs(append(more, "--http", "127.0.0.1:0")...)...)
	cmd := exec.Command(bin(d.t, "palyra"), args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = os.Stderr
		err = cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			d.t.Errorf("mcp serve: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var said struct {
		URL   string `json:"url"`
		Token string `json:"token_file"`
	}
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil {
		d.t.Fatalf("mcp serve: %v: %s", err, line)
	}
	info, err := os.Stat(said.Token)
	if err != nil || info.Mode().Perm() != 0o600 {
		d.t.Fatalf("the token file: %v %v", info, err)
	}
	raw, err := os.ReadFile(said.Token)
	if err != nil {
		d.t.Fatal(err)
	}
	return said.URL, strings.TrimSpace(string(raw))
}

// TestInspector: the official inspector's command line lists and calls tools, over
// both transports.
func TestInspector(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	exe, modules := node(t)
	url, token := d.mcpHTTP()
	launcher := filepath.Join(modules, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	targets := map[string][]string{
		"stdio": {"-e", "PALYRA_HOME=" + d.home, bin(t, "palyra"), "mcp", "serve"},
		"http":  {url, "--transport", "http", "--header", "Authorization: Bearer " + token},
	}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inspect := func(more ...string) string {
				cmd := exec.CommandContext(t.Context(), exe, append(append([]string{launcher, "--cli"}, target...), more...)...)
				cmd.Dir = d.work
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", more, err, out)
				}
				return string(out)
			}
			list := inspect("--method", "tools/list")
			for _, want := range []string{`"palyra_fs_read"`, `"palyra_process_run"`, `"palyra_call_wait"`, `"readOnlyHint"`} {
				if !strings.Contains(list, want) {
					t.Errorf("%s is not in the list\n%s", want, list)
				}
			}
			said := inspect("--method", "tools/call", "--tool-name", "palyra_echo", "--tool-arg", "text=hello")
			if !strings.Contains(said, `"outcome": "finished"`) || !strings.Contains(said, "hello") {
				t.Errorf("%s", said)
			}
		})
	}
}

// tsClient is a run of the program on the TypeScript SDK.
type tsClient struct {
	t     *testing.T
	lines *bufio.Scanner
}

type tsEvent struct {
	Event   string
	Message string
	Names   []string
	Result  struct {
		IsError bool
		Meta    struct {
			Outcome map[string]any `json:"palyra/outcome"`
		} `json:"_meta"`
		Content []struct{ Text string }
	}
}

func startTS(t *testing.T, server, call any) *tsClient {
	t.Helper()
	exe, modules := node(t)
	one, _ := json.Marshal(server)
	two, _ := json.Marshal(call)
	cmd := exec.CommandContext(t.Context(), exe, filepath.Join(modules, "client.mjs"), string(one), string(two))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("client.mjs: %v", err)
		}
	})
	c := &tsClient{t: t, lines: bufio.NewScanner(out)}
	c.lines.Buffer(nil, 4<<20)
	c.next("tools")
	return c
}

// next returns the next event of a kind, and passes over progress.
func (c *tsClient) next(kind string) tsEvent {
	c.t.Helper()
	for c.lines.Scan() {
		var e tsEvent
		if err := json.Unmarshal(c.lines.Bytes(), &e); err != nil {
			c.t.Fatalf("%v: %s", err, c.lines.Text())
		}
		if e.Event == kind {
			return e
		}
		if e.Event != "progress" {
			c.t.Fatalf("%+v instead of %s", e, kind)
		}
	}
	c.t.Fatalf("the program ended without %s: %v", kind, c.lines.Err())
	return tsEvent{}
}

// asking waits until the client is told which approval is open.
func (c *tsClient) asking(d *daemon, person *client.Client) palyra.Approval {
	c.t.Helper()
	a := d.pending(person)
	for !strings.Contains(c.next("progress").Message, string(a.ID)) {
	}
	return a
}

// decide answers as a person does, by the command.
func (d *daemon) decide(a palyra.Approval, answer string) {
	d.t.Helper()
	out, err := exec.Command(bin(d.t, "palyra"), "--home", d.home, "approvals", "decide", string(a.ID), answer, "--digest",
		string(a.PlanDigest)).CombinedOutput()
	if err != nil {
		d.t.Fatalf("decide: %v\n%s", err, out)
	}
}

func tsWrite(name string, more map[string]any) map[string]any {
	call := map[string]any{"name": "palyra_fs_write", "arguments": map[string]any{"path": name, "content": "x"}}
	for k, v := range more {
		call[k] = v
	}
	return call
}

// TestTypeScriptClient: a program on the TypeScript SDK meets every way in which a
// call that needs an approval can end, over both transports.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	person := d.client(client.OperatorDoor)
	url, token := d.mcpHTTP("--pending-after", "3s")
	stdio := map[string]any{"command": bin(t, "palyra"), "args": d.mcpArgs("--pending-after", "3s")}
	web := map[string]any{"url": url, "token": token}
	for name, server := range map[string]any{"stdio": stdio, "http": web} {
		t.Run(name+" allow", func(t *testing.T) {
			c := startTS(t, server, tsWrite(name+"-allow", nil))
			d.decide(c.asking(d, person), "allow")
			r := c.next("result").Result
			if r.IsError || r.Meta.Outcome["outcome"] != "finished" {
				t.Errorf("%+v", r)
			}
			if _, err := os.Stat(filepath.Join(d.work, name+"-allow")); err != nil {
				t.Error(err)
			}
		})
		t.Run(name+" deny", func(t *testing.T) {
			c := startTS(t, server, tsWrite(name+"-deny", nil))
			d.decide(c.asking(d, person), "deny")
			r := c.next("result").Result
			if !r.IsError || r.Meta.Outcome["reason_code"] != "approval_denied" || !strings.Contains(r.Content[0].Text, "approval_denied") {
				t.Errorf("%+v", r)
			}
		})
		t.Run(name+" cancel", func(t *testing.T) {
			c := startTS(t, server, tsWrite(name+"-cancel", map[string]any{"cancel_on": "approval"}))
			a := d.pending(person)
			c.next("error")
			settled(t, person, a.ID)
		})
		t.Run(name+" gives up, then waits", func(t *testing.T) {
			c := startTS(t, server, tsWrite(name+"-late", map[string]any{
				"timeout_ms": 1000, "then": map[string]any{"name": "palyra_call_wait", "arguments": map[string]any{"timeout_s": 30}},
			}))
			a := d.pending(person)
			c.next("error")
			d.decide(a, "allow")
			if r := c.next("result").Result; r.IsError || r.Meta.Outcome["outcome"] != "finished" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// settled waits until a question was withdrawn.
func settled(t *testing.T, person *client.Client, id palyra.ApprovalID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMost)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		a, err := person.Approval(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Pending() {
			if a.Decision.Answer != palyra.AnswerError {
				t.Errorf("approval %s: %q", id, a.Decision.Answer)
			}
			return
		}
		<-look.C
	}
}

func TestMCPOverHTTPIsClosedToOthers(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	url, token := d.mcpHTTP()
	for name, c := range map[string]struct {
		header map[string]string
		host   string
		want   int
	}{
		"no token": {nil, "", 401}, "another token": {map[string]string{"Authorization": "Bearer " + strings.Repeat("A", 26)}, "", 401},
		"a page of another origin": {map[string]string{"Authorization": "Bearer " + token, "Origin": "https://evil.example"}, "", 403},
		"another host":             {map[string]string{"Authorization": "Bearer " + token}, "evil.example", 403},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{}`))
		for k, v := range c.header {
			req.Header.Set(k, v)
		}
		req.Host = c.host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, c.want)
		}
	}
}
