//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A person is changed by what is named and by nothing else.
func TestUserChangeKeepsTheRest(t *testing.T) {
	h := openHouse(t)
	h.palyra("workspace", "add", h.work)
	h.palyra("access", "user", "add", "user:bob", "--role", "viewer", "--workspace", ".")
	got := func(args ...string) (role, bound string) {
		t.Helper()
		out := h.palyra(append([]string{"access", "user", "change", "user:bob", "--json"}, args...)...)
		bound, _ = dig([]byte(out), "workspaces.0")
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
		"access user change user:bob":                             exitUsage,
		"access user change user:bob --everywhere --workspace /x": exitUsage,
		"access user change user:eve --role viewer":               exitFailure,
		"access user change user:bob --role king":                 exitFailure,
		"access user add agent:x":                                 exitFailure,
		"access user remove user:eve":                             exitFailure,
		"access token add x":                                      exitUsage,
		"access token add x --scope king":                         exitFailure,
		"access token add x --scope status.view --ttl 1s":         exitFailure,
		"access token add x --scope approvals.decide":             exitUnauthorised,
		"access token revoke tok-none":                            exitFailure,
		"device show nobody":                                      exitFailure,
		"device revoke nobody":                                    exitFailure,
		"device pair --role king":                                 exitFailure,
		"device pair --for user:eve":                              exitFailure,
		"device join":                                             exitUsage,
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
	fatal(t, err)
	if info, err := os.Stat(out); err != nil || info.Mode() != 0o600 || !strings.HasPrefix(string(raw), "plyr_") || strings.Contains(said, "plyr_") {
		t.Errorf("%v %v %s", info.Mode(), err, said)
	}
	// It speaks for its person as far as its scopes go.
	if me := h.withToken(out, "access", "whoami", "--agent", "--json"); digOne(t, me, "credential") != "token" || digOne(t, me, "permissions.len") != "1" {
		t.Errorf("%s", me)
	}
	// A file that is there is not replaced, and then no token is made.
	for _, path := range []string{out, filepath.Join(h.work, "no", "t")} {
		if said := h.fails(exitFailure, append(add, "third", "--out", path)...); !strings.Contains(said, "no token was made") {
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
	for _, i := range []string{"0", "1"} {
		h.palyra("access", "token", "revoke", digOne(t, list, "tokens."+i+".token_id"))
	}
	if table := h.palyra("access", "token", "list"); strings.Count(table, "revoked 2") != 2 {
		t.Errorf("%s", table)
	}
}

// withToken runs a command with a token's file.
func (h *house) withToken(file string, args ...string) string {
	h.t.Helper()
	cmd := h.command(args...)
	cmd.Env = append(cmd.Env, tokenVariable+"="+file)
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
		"__complete access user remove ": "user:bob", "__complete device pair --for ": "user:bob", "__complete device show ": ":4", "__complete access token revoke ": ":4",
		"__complete device pair --role ": "approver", "__complete device renew ": ":4",
	} {
		if out := h.palyra(append(strings.Fields(args), "")...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
}
