//go:build linux

package cli

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/configuration"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/stagetest"
)

// alone runs palyra in a home without a daemon.
func alone(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return stagetest.Program(Main).Alone(t, env, args...)
}

// Every command is one about this machine, one that works elsewhere as well, or
// one that asks no daemon. A new one must be put somewhere.
func TestEveryCommandKnowsWhere(t *testing.T) {
	offline := strings.Fields("version man mcp-install mcp-uninstall approvals-verify journal-verify-proof attest-verify " +
		"skills-init skills-build skills-pack skills-sign skills-verify " +
		"sandbox-verify policy-init policy-test device-remotes device-renew device-forget help " +
		"completion-bash completion-zsh completion-fish completion-powershell exit-codes environment __complete __completeNoDesc")
	anywhere := strings.Fields("status tui acp mcp-serve mcp-add mcp-list mcp-show mcp-approve mcp-remove mcp-import exec check run " +
		"runs-list runs-show runs-attach runs-cancel tools-list tools-show tools-call " +
		"approvals-list approvals-show approvals-decide approvals-watch approvals-export approvals-stats leases-list leases-show leases-revoke " +
		"sessions-list sessions-show sessions-close calls-list calls-show calls-cancel processes-list processes-output processes-stop " +
		"workspace-add workspace-list workspace-remove " +
		"agent-add agent-list agent-remove agent-run operator-list operator-add operator-remove access-user-list access-user-add " +
		"access-user-change access-user-remove " +
		"access-token-list access-token-add access-token-revoke access-roles access-whoami device-pair device-list device-show " +
		"device-revoke console-pair " +
		"keys-list keys-export keys-rotate keys-where keys-move journal-tail journal-verify journal-export " +
		"journal-proof attest-show policy-show policy-why " +
		"policy-snapshot policy-check policy-apply policy-history policy-rollback policy-replay policy-suggest " +
		"observe-start observe-status observe-report observe-enforce " +
		"sandbox-doctor sandbox-posture changes keep drop undo redo " +
		"vault-put vault-get vault-list vault-delete vault-rotate vault-unlock vault-lock vault-status vault-export vault-import " +
		"vault-bind vault-unbind vault-bindings vault-import-env " +
		"skills-install skills-import skills-list skills-show skills-enable skills-quarantine skills-shrink skills-remove " +
		"skills-trust-add skills-trust-list skills-trust-revoke")
	seen := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() || !cmd.HasParent() {
			return
		}
		name := strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "palyra "), " ", "-")
		_, own := ownMachine[cmd.CommandPath()]
		seen[cmd.CommandPath()] = true
		n := 0
		for _, is := range []bool{own, slices.Contains(offline, name), slices.Contains(anywhere, name)} {
			if is {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is in %d lists", name, n)
		}
	}
	walk(rootCommand((&invocation.Invocation{})))
	for path := range maps.Keys(ownMachine) {
		if !seen[path] {
			t.Errorf("%s is no command", path)
		}
	}
}

// A command about this machine says so before it does anything.
func TestCommandsAboutThisMachine(t *testing.T) {
	home := t.TempDir()
	for path := range maps.Keys(ownMachine) {
		args := strings.Fields(path)[1:]
		code, out, said := alone(t, []string{"PALYRA_HOME=" + home}, append(args, "--remote", "work")...)
		if code != exit.Usage || out != "" || !strings.Contains(said, "cannot be meant for work") ||
			!strings.Contains(said, "leave --remote out") {
			t.Errorf("%s: exit %d\n%s%s", path, code, out, said)
		}
		code, _, said = alone(t, []string{"PALYRA_HOME=" + home, "PALYRA_REMOTE=work"}, args...)
		if code != exit.Usage || !strings.Contains(said, "unset PALYRA_REMOTE") {
			t.Errorf("%s: exit %d\n%s", path, code, said)
		}
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
	// An empty name is this machine, whatever the environment says.
	if code, out, said := alone(t, []string{"PALYRA_HOME=" + home, "PALYRA_REMOTE=work"}, "config", "path", "--remote",
		""); code != exit.OK || !strings.Contains(out, home) {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
}

func TestUnknownRemote(t *testing.T) {
	home := t.TempDir()
	for _, env := range [][]string{{"PALYRA_HOME=" + home, "PALYRA_REMOTE=nowhere"}, {"PALYRA_HOME=" + home, "PALYRA_REMOTE=../x"}} {
		for _, args := range []string{"status", "tools list", "device renew", "approvals list", "access whoami --agent"} {
			code, _, said := alone(t, env, strings.Fields(args)...)
			if code != exit.Failure || !strings.Contains(said, "is not paired with a daemon called") ||
				!strings.Contains(said, "palyra device remotes") {
				t.Errorf("%s: exit %d\n%s", args, code, said)
			}
		}
	}
	// What asks no daemon is not held up by one that is not there.
	if code, _, said := alone(t, []string{"PALYRA_HOME=" + home, "PALYRA_REMOTE=nowhere"}, "device", "remotes"); code != exit.OK {
		t.Errorf("exit %d\n%s", code, said)
	}
	for _, args := range []string{"device renew", "device renew a --remote b"} {
		if code, _, said := alone(t, []string{"PALYRA_HOME=" + home}, strings.Fields(args)...); code != exit.Usage {
			t.Errorf("%s: exit %d\n%s", args, code, said)
		}
	}
}

// A remote that is damaged does not hide itself, nor the others.
func TestDamagedRemote(t *testing.T) {
	home := t.TempDir()
	stagetest.Fatal(t, os.MkdirAll(filepath.Join(home, "remotes", "work"), 0o700))
	code, out, said := alone(t, []string{"PALYRA_HOME=" + home}, "device", "remotes", "--json")
	if code != exit.Failure || !strings.Contains(out, `"remotes":[]`) || !strings.Contains(said, "damaged") {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
}

func TestEnvironmentAndCompletion(t *testing.T) {
	if page := configuration.EnvironmentTopic().Long; !strings.Contains(page, "PALYRA_REMOTE\n") {
		t.Errorf("%s", page)
	}
	code, out, _ := alone(t, []string{"PALYRA_HOME=" + t.TempDir()}, "__complete", "--remote", "")
	if code != exit.OK || !strings.Contains(out, ":4") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// What is not an address is refused before a key is made or anybody asked.
func TestJoinBadAddresses(t *testing.T) {
	home := t.TempDir()
	for _, args := range [][]string{
		{"https://host"},
		{"host:port"},
		{"host:"},
		{":7443"},
		{"host:0"},
		{"a:b:c"},
		{"[::1"},
		{"::1]:7443x"},
		{""},
		{"host name"},
		{"host:7443", "--as", "../x"},
		{"host:7443", "--name", "a b"},
		{"--code", "nonsense"},
		{"--code", "-"},
		{},
	} {
		code, _, said := alone(t, []string{"PALYRA_HOME=" + home}, append([]string{"device", "join"}, args...)...)
		if code != exit.Failure && code != exit.Usage || strings.Contains(said, "key is") {
			t.Errorf("%q: exit %d\n%s", args, code, said)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "remotes")); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
}

func TestWithPort(t *testing.T) {
	for in, want := range map[string]string{
		"host": "host:7443", "192.0.2.7": "192.0.2.7:7443", "host:1": "host:1", "::1": "[::1]:7443", "[::1]": "[::1]:7443", "[::1]:9": "[::1]:9",
		"fe80::1%eth0": "[fe80::1%eth0]:7443", "a:b:c": "a:b:c", "[host]": "[host]", "": "", "host:": "host:", "[::1": "[::1", "::1]": "::1]",
	} {
		if got := withPort(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// The PIN is taken from a terminal and from nowhere else.
func TestPINNeedsATerminal(t *testing.T) {
	h := &house{t: t, home: t.TempDir(), work: t.TempDir()}
	h.env = []string{"PALYRA_HOME=" + h.home, "NO_COLOR=1"}
	there, _ := openFar(t)
	pair := there.stream("device", "pair", "--json")
	at := digOne(t, pair.until(`"code"`), "addresses.0")
	if said := h.fails(exit.Failure, "device", "join", "127.0.0.1:1"); !strings.Contains(said, "no daemon that pairs answers there") ||
		strings.Contains(said, "PIN on") {
		t.Errorf("%s", said)
	}
	cmd := h.command("device", "join", at)
	cmd.Stdin = strings.NewReader("12345678\n")
	out, err := cmd.CombinedOutput()
	if exitCodeOf(err) != exit.Failure || !strings.Contains(string(out), "there is no terminal to type the PIN on") ||
		!strings.Contains(string(out), "--code") {
		t.Errorf("%v\n%s", err, out)
	}
	noRemotes(t, h)
	s := h.at("device", "join", at)
	s.ExpectSecret("PIN that the daemon shows: ")
	s.Send("\x03")
	if code := s.End(); code != exit.Cancelled {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
}

// noRemotes fails when something of a pairing is in a home, a key above all.
func noRemotes(t *testing.T, h *house) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.home, "remotes"))
	stagetest.Fatal(t, err)
	for _, e := range entries {
		if e.Name() != ".lock" {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

// Every end of a pairing has its own words, code and way on.
func TestPairingEnds(t *testing.T) {
	for _, c := range []struct {
		p    palyra.Pairing
		exit int
		text string
	}{
		{palyra.Pairing{State: palyra.PairingExpired}, exit.Failure, "in time"},
		{palyra.Pairing{State: palyra.PairingLocked, Reason: palyra.ReasonPairingLocked}, exit.Failure, "too often"},
		{
			palyra.Pairing{State: palyra.PairingRefused, Reason: palyra.ReasonApprovalDenied, Text: "denied by user:ann"},
			exit.Approval,
			"denied by user:ann",
		},
		{palyra.Pairing{State: palyra.PairingRefused}, exit.Approval, "refused"},
		{
			palyra.Pairing{State: palyra.PairingRefused, Reason: palyra.ReasonExists, Text: "a device is or was called x"},
			exit.Failure,
			"is or was called x",
		},
		{palyra.Pairing{State: palyra.PairingGone}, exit.Cancelled, "withdrawn"},
		{palyra.Pairing{State: palyra.PairingIssued}, exit.Failure, "broke off"},
		{palyra.Pairing{State: palyra.PairingDone}, exit.Failure, "broke off"}, // without a device nothing is paired
		{palyra.Pairing{State: palyra.PairingDone, Device: &palyra.Device{Name: "x"}}, exit.OK, ""},
	} {
		var out bytes.Buffer
		w := &pairWatch{inv: &invocation.Invocation{Stderr: &out, Now: time.Now}, last: c.p}
		err := w.end()
		if exit.Of(err) != c.exit || err != nil && (!strings.Contains(palyra.AsError(err).Text, c.text) || palyra.AsError(err).Remedy == "") {
			t.Errorf("%s: exit %d, %v", c.p.State, exit.Of(err), err)
		}
	}
}

// Without a terminal the PIN and the text are printed, and no picture.
func TestPairingWithoutATerminal(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	code, out, said := s.Main(strings.NewReader(""), "device", "pair")
	if code != exit.OK || out != "" || strings.Contains(said, "█") {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
	for _, want := range []string{
		"PIN    1234 5678\n", "Code   palyra-pair:1?", "palyra device join 192.0.2.1:7443",
		"palyra approvals decide A1 allow, or deny", "Paired: laptop",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q:\n%s", want, said)
		}
	}
	code, out, said = s.Main(strings.NewReader(""), "device", "pair", "--json", "-q")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != exit.OK || said != "" || len(lines) != 3 ||
		digOne(t, lines[0], "pin") != "12345678" || strings.Contains(lines[2], "pin") {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
}

// A QR code that does not fit is not drawn; the text is there all the same.
func TestQRLines(t *testing.T) {
	lines := qrLines("palyra-pair:1?a=192.0.2.1:7443&c=3yzILo2AwpVxnQJ0Va74BTwH7dX4deAeWQaC0Da14fk" +
		"&t=d5I3fP4FOwHYWKhSh0wCqy5RfoVZAGd8dGH4x0A3lDc")
	for _, line := range lines {
		if len([]rune(line)) != len([]rune(lines[0])) {
			t.Fatalf("ragged:\n%s", strings.Join(lines, "\n"))
		}
	}
	if got := scan(t, strings.Join(lines, "\n")); !strings.HasPrefix(got, "palyra-pair:1?a=192.0.2.1:7443&c=") {
		t.Errorf("%q", got)
	}
}
