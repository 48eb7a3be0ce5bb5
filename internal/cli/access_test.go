//go:build linux

package cli

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/stagetest"
)

// A person is changed by what is named and by nothing else.
func TestUserChangeKeepsTheRest(t *testing.T) {
	h := openHouse(t)
	h.palyra("workspace", "add", h.work)
	h.palyra("access", "user", "add", "user:bob", "--role", "viewer", "--workspace", ".")
	got := func(args ...string) (role, bound string) {
		t.Helper()
		out := h.palyra(append([]string{"access", "user", "change", "user:bob", "--json"}, args...)...)
		bound, _ = stagetest.Dig([]byte(out), "workspaces.0")
		return digOne(t, out, "role"), bound
	}
	if role, bound := got("--role", "approver"); role != "approver" || bound != h.work {
		t.Errorf("another role let them in elsewhere: %s %q", role, bound)
	}
	if role, bound := got("--everywhere"); role != "approver" || bound != "" {
		t.Errorf("%s %q", role, bound)
	}
	if role, bound := got("--workspace", h.work); role != "approver" || bound != h.work {
		t.Errorf("%s %q", role, bound)
	}
	for args, code := range map[string]int{
		"access user change user:bob":                             exit.Usage,
		"access user change user:bob --everywhere --workspace /x": exit.Usage,
		"access user change user:eve --role viewer":               exit.Failure,
		"access user change user:bob --role king":                 exit.Failure,
		"access user add agent:x":                                 exit.Failure,
		"access user remove user:eve":                             exit.Failure,
		"access token add x":                                      exit.Usage,
		"access token add x --scope king":                         exit.Failure,
		"access token add x --scope status.view --ttl 1s":         exit.Failure,
		"access token add x --scope approvals.decide":             exit.Unauthorised,
		"access token revoke tok-none":                            exit.Failure,
		"device show nobody":                                      exit.Failure,
		"device revoke nobody":                                    exit.Failure,
		"device pair --role king":                                 exit.Failure,
		"device pair --for user:eve":                              exit.Failure,
		"device join":                                             exit.Usage,
	} {
		h.fails(code, strings.Fields(args)...)
	}
}

// A token is given once: to the screen, or to a new file of one's own.
func TestTokenIsGivenOnce(t *testing.T) {
	h := openHouse(t)
	add := []string{"access", "token", "add", "--scope", "status.view", "--ttl", "1h"}
	shown := strings.TrimSpace(h.palyra(append(add, "dash")...))
	if !strings.HasPrefix(shown, "plyr_") || strings.ContainsAny(shown, " \n") {
		t.Errorf("%q", shown)
	}
	list := h.palyra("access", "token", "list", "--json")
	if strings.Contains(list, shown) || digOne(t, list, "tokens.len") != "1" {
		t.Errorf("%s", list)
	}
	out := filepath.Join(h.work, "t")
	said := h.palyra(append(add, "file", "--out", out, "--json")...)
	raw, err := os.ReadFile(out)
	stagetest.Fatal(t, err)
	if info, err := os.Stat(out); err != nil || info.Mode() != 0o600 || !strings.HasPrefix(string(raw), "plyr_") ||
		strings.Contains(said, "plyr_") {
		t.Errorf("%v %v %s", info.Mode(), err, said)
	}
	// It speaks for its person as far as its scopes go.
	if me := h.withToken(out, "access", "whoami", "--agent", "--json"); digOne(t, me, "credential") != "token" ||
		digOne(t, me, "permissions.len") != "1" {
		t.Errorf("%s", me)
	}
	// Whoever asks without --agent is told that it is not used.
	cmd := h.command("access", "whoami", "--json")
	cmd.Env = append(cmd.Env, invocation.TokenVariable+"="+out)
	if me, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(me), "is set and not used here") ||
		!strings.Contains(string(me), "whoami --agent") || !strings.Contains(string(me), `"credential":"operator_socket"`) {
		t.Errorf("%v %s", err, me)
	}
	// What it was not made for is refused with the same code wherever it is tried.
	for _, args := range []string{"tools list", "tools show palyra.echo", `tools call palyra.echo --input {"text":"x"}`} {
		cmd := h.command(strings.Fields(args)...)
		cmd.Env = append(cmd.Env, invocation.TokenVariable+"="+out)
		if said, err := cmd.CombinedOutput(); exitCodeOf(err) != exit.Unauthorised {
			t.Errorf("%s: %v\n%s", args, err, said)
		}
	}
	h.plainly(strings.TrimSpace(string(raw)))
	// A file that is there is not replaced, and then no token is made.
	for _, path := range []string{out, filepath.Join(h.work, "no", "t")} {
		if said := h.fails(exit.Failure, append(add, "third", "--out", path)...); !strings.Contains(said, "no token was made") {
			t.Errorf("%s", said)
		}
	}
	if again, _ := os.ReadFile(out); string(again) != string(raw) {
		t.Error("the file was replaced")
	}
	list = h.palyra("access", "token", "list", "--json")
	if digOne(t, list, "tokens.len") != "2" {
		t.Errorf("%s", list)
	}
	h.palyra("access", "token", "revoke", digOne(t, list, "tokens.0.token_id"))
	h.palyra("access", "token", "revoke", digOne(t, list, "tokens.1.name"))
	h.fails(exit.Failure, "access", "token", "revoke", digOne(t, list, "tokens.1.name"))
	if table := h.palyra("access", "token", "list"); strings.Count(table, "revoked 2") != 2 {
		t.Errorf("%s", table)
	}
}

// plainly sends a token as the help of token add says, with nothing of ours.
func (h *house) plainly(token string) {
	h.t.Helper()
	socket := filepath.Join(h.home, "run", "operator.sock")
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer tr.CloseIdleConnections()
	for token, want := range map[string]int{token: http.StatusOK, token + "x": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, "http://palyra/palyra.v1.StatusService/GetStatus",
			strings.NewReader("{}"))
		stagetest.Fatal(h.t, err)
		req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
		res, err := (&http.Client{Transport: tr}).Do(req)
		stagetest.Fatal(h.t, err)
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != want || want == http.StatusOK && !strings.Contains(string(body), "agent_socket") {
			h.t.Errorf("%d, want %d: %s %v", res.StatusCode, want, body, err)
		}
	}
}

// withToken runs a command with a token's file.
func (h *house) withToken(file string, args ...string) string {
	h.t.Helper()
	cmd := h.command(args...)
	cmd.Env = append(cmd.Env, invocation.TokenVariable+"="+file)
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestCompletionOfPeople(t *testing.T) {
	h := openHouse(t)
	h.palyra("access", "user", "add", "user:bob")
	for args, want := range map[string]string{
		"__complete access user remove ": "user:bob", "__complete device pair --for ": "user:bob", "__complete device show ": ":4",
		"__complete access token revoke ": ":4",
		"__complete device pair --role ":  "approver", "__complete device renew ": ":4",
	} {
		if out := h.palyra(append(strings.Fields(args), "")...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
}

// The examples of token add work as they are printed, and what they need is said.
func TestTokenForAnAgentNeedsTheAgent(t *testing.T) {
	h := openHouse(t)
	add := []string{"access", "token", "add", "ci", "--for", "agent:ci", "--scope", "runs.start", "--scope", "runs.view", "--ttl", "7d"}
	if said := h.fails(exit.Failure, add...); !strings.Contains(said, "palyra agent add") {
		t.Errorf("%s", said)
	}
	h.palyra("agent", "add", "ci", "--out", "agent.token")
	h.palyra(append(add, "--out", "ci.token")...)
	help := h.palyra("access", "token", "add", "--help")
	for _, want := range []string{"palyra agent add ci", "curl --unix-socket", "(default 30d)"} {
		if !strings.Contains(help, want) {
			t.Errorf("no %q:\n%s", want, help)
		}
	}
	if help := h.palyra("access", "user", "remove", "--help"); !strings.Contains(help, "never given again") {
		t.Errorf("%s", help)
	}
}
