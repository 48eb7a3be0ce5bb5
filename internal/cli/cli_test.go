package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

// play runs one command without a daemon, in a home of its own.
func play(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return playIn(t, t.TempDir(), args...)
}

func playIn(t *testing.T, home string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = Main(t.Context(), Process{
		Args: args, Env: []string{"PALYRA_HOME=" + home}, Stdin: strings.NewReader(""), Stdout: &out,
		Stderr: &err,
	})
	return code, out.String(), err.String()
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"bogus", `there is no command "bogus"`},
		{"doctor", `there is no command "doctor"; did you mean status, or sandbox doctor?`},
		{"decide", `there is no command "decide"; did you mean approvals decide?`},
		{"tool list", `there is no command "tool"; did you mean tools?`},
		{"statu", `there is no command "statu"; did you mean status?`},
		{"approvls list", `there is no command "approvls"; did you mean approvals?`},
		{"journal tail --kind call.grantd", `there are no entries of kind "call.grantd"; there are call.granted`},
		{"journal tail --kind grant", "there are call.granted, grant.created, grant.ended"},
		{"journal tail --kind xyz", "there are state.begun, daemon.started, daemon.stopped"},
		{"help bogus", `there is no help on "bogus"`},
		{"help approvals bogus", `there is no help on "approvals bogus"`},
		{"attest", "attest: a command is missing: show, verify"},
		{"approvals lst", `there is no command "approvals lst"; did you mean list?`},
		{"approvals show", "ID is missing"},
		{"approvals show a b", `"b" is one argument too many`},
		{"approvals list --nonsense", "unknown flag: --nonsense"},
		{"approvals list --limit 501", "--limit must be between 0 and 500"},
		{"approvals list --limit x", "invalid argument"},
		{"approvals list --decision maybe", `--decision "maybe" is not one of`},
		{"approvals list --decision allow --pending", "exclude each other"},
		{"approvals list --since whenever", "is neither a time like"},
		{"approvals export --format xml", "neither ndjson nor json"},
		{"approvals verify f", "--key is required"},
		{"approvals decide X maybe", `"maybe" is not an answer`},
		{"approvals decide allow", "ID is missing"},
		{"foo --help", `there is no command "foo"`},
		{"why --help", "did you mean policy why?"},
		{"approvals foo --help", `there is no command "approvals foo"`},
		{"approvals decide X allow --digest sha256:12", "--digest must be"},
		{"approvals decide X allow --scope forever --digest D", "--digest must be"},
		{"approvals decide X allow --scope forever", `"forever" is not a scope`},
		{"approvals decide X allow --scope timeboxed", "needs --ttl"},
		{"approvals decide X allow --ttl 5m", "--ttl belongs to --scope timeboxed"},
		{"approvals decide X allow --ttl soon", "is not a duration"},
		{"approvals decide X deny --scope once", "belong to an allow"},
		{"approvals decide X allow --scope session --uses -1", "--uses must not be negative"},
		{"tools call", "NAME is missing"},
		{"exec", "CMD is missing"},
		{"exec --", "CMD is missing"},
		{"exec ls -l", "come after two dashes: palyra exec -- CMD"},
		{"agent run ls", "put -- before it: palyra agent run -- ls"},
		{"agent run", "CMD is missing: palyra agent run -- CMD"},
		{"calls list --state bogus", "pending"},
		{"exec ls", "put -- before the command: palyra exec -- ls"},
		{"exec ls -- -l", `"ls" stands before --`},
		{"exec --nonsense -- ls", "unknown flag: --nonsense"},
		{"exec --tier a -- ls", `--tier "a" is neither b nor c`},
		{"exec --env A -- ls", `--env "A" is not NAME=VALUE`},
		{"exec --env =1 -- ls", `--env "=1" is not NAME=VALUE`},
		{"exec --env A=1 --env A=2 -- ls", "--env gives A twice"},
		{"exec --memory lots -- ls", "is not a size"},
		{"exec --memory 0 -- ls", "is not a size"},
		{"exec --processes -1 -- ls", "--processes must not be negative"},
		{"exec --timeout never -- ls", "is not a duration"},
		{"exec --egress= -- ls", "--egress must be host:port"},
		{"exec -t -- ls", "-t needs a terminal on stdin"},
		{"exec -- a\xff", "is not UTF-8"},
		{"run", "say what to do"},
		{"run now then", `"then" is one argument too many`},
		{"run --script x --max-calls -1", "--max-calls must not be negative"},
		{"run --script x --wall 0", "is not a duration"},
		{"runs attach", "ID is missing"},
		{"runs attach x --after -1", "--after must not be negative"},
		{"runs list --limit 501", "--limit must be between 0 and 500"},
		{"keys rotate house", `"house" is none of journal, attestation and ca`},
		{"journal proof 0", "entries count from 1"},
		{"journal proof x", "entries count from 1"},
		{"journal tail --from -1", "must not be negative"},
		{"journal export --from 9 --to 3", "is not a range"},
		{"journal verify --key x", "--key belongs to a FILE"},
		{"journal verify f", "--key is required"},
		{"journal verify-proof f", "--key is required"},
		{"attest verify f", "--key is required"},
		{"attest verify f --key " + questiontest.SampleKey + " --operator-key x", "is not an Ed25519 public key"},
		{"policy why", "ask about one thing"},
		{"policy why X --tool y", "ask about one thing"},
		{"policy why X -- ls", "ask about one thing"},
		{"policy why --script ls -- ls", "ask about one thing"},
		{"policy why --batch f --tool t", "ask about one thing"},
		{"policy why ls -- ", "ask about one thing"},
		{"policy why ls file", "put -- before the command"},
		{"policy why X --input {}", "--input belongs to --tool"},
		{"policy why X --tier c", "belong to a command"},
		{"policy why --tier d -- ls", "neither b nor c"},
		{"policy why --egress= -- ls", "must be host:port"},
		{"policy why --script=", "--script needs a line of shell"},
		{"policy why " + strings.Repeat("x", 200), "is too long for an ID"},
		{"policy snapshot abc", "is not a digest"},
		{"policy rollback abc", "is not a digest"},
		{"policy replay --since soon", "is neither a time"},
		{"policy replay --since 1h --until 2h", "--since must come before --until"},
		{"policy suggest --until soon", "is neither a time"},
		{"policy suggest --rules -1", "from 1 to 100"},
		{"policy suggest --rules 0", "--rules 0: from 1 to 100"},
		{"policy suggest --rules 101", "from 1 to 100"},
		{"policy suggest --since soon", "nor a date like 2026-01-02"},
		{"policy history --limit 0", "--limit 0: from 1 to 500"},
		{"policy history --limit -1", "from 1 to 500"},
		{"policy history --limit 501", "from 1 to 500"},
		{"operator add user:x --public-key abc", "--public-key must be"},
		{"up --set nonsense", "is not KEY=VALUE"},
		{"up --timeout 0", "is not a duration"},
		{"completion klingon", `there is no command "completion klingon"`},
		{"status now", `"now" is one argument too many`},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, err := play(t, strings.Fields(c.args)...)
			if code != exit.Usage || out != "" || !strings.HasPrefix(err, "palyra: ") || !strings.Contains(err, c.want) ||
				!strings.Contains(err, "\n  remedy: ") {
				t.Errorf("exit %d\nstdout %s\nstderr %s", code, out, err)
			}
		})
	}
}

// Every command has a help page; those that need a daemon say that there is
// none, each in the same way.
func TestEveryCommand(t *testing.T) {
	inv := &invocation.Invocation{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() != "help" && c.Short == "" {
			t.Errorf("%s has no short text", c.CommandPath())
		}
		if c.Runnable() && !c.HasAvailableSubCommands() && c.Args == nil {
			t.Errorf("%s does not check its arguments", c.CommandPath())
		}
		if c.Runnable() && !c.HasSubCommands() && !strings.HasPrefix(c.Example, "  palyra ") && !strings.Contains(c.Example, "(palyra ") {
			t.Errorf("%s has no example: %q", c.CommandPath(), c.Example)
		}
		for _, text := range flagTexts(c.Flags().VisitAll) {
			if text == "" || strings.Contains(text, "`") { // which would make the word the name of the value
				t.Errorf("%s: a flag says %q", c.CommandPath(), text)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(inv))
}

// flagTexts lists what the flags say in the help.
func flagTexts[F any](visit func(func(*F))) []string {
	var out []string
	visit(func(f *F) { out = append(out, reflect.ValueOf(f).Elem().FieldByName("Usage").String()) })
	return out
}

// A complaint about the command line leads to the help of the command meant.
func TestRemedyNamesTheHelp(t *testing.T) {
	for args, want := range map[string]string{
		"bogus": "palyra --help", "approvals lst": "palyra approvals --help", "approvals show": "palyra approvals show --help",
		"tools call x --nope": "palyra tools call --help", "help nothing": "palyra --help",
	} {
		if _, _, err := play(t, strings.Fields(args)...); !strings.Contains(err, "\n  remedy: see `"+want+"`\n") {
			t.Errorf("%s: %s", args, err)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	code, flag, _ := play(t, "--version")
	_, command, _ := play(t, "version")
	if line, _, _ := strings.Cut(command, "\n"); code != exit.OK || flag != line+"\n" || !strings.HasPrefix(flag, "palyra dev ") {
		t.Errorf("%d %q, not %q", code, flag, command)
	}
}

// The manual page of palyra has the flags that its help has.
func TestManualNamesTheVersionFlag(t *testing.T) {
	dir := t.TempDir()
	if code, _, err := play(t, "man", dir); code != exit.OK {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "palyra.1"))
	if err != nil || !strings.Contains(string(page), "--version") {
		t.Errorf("%v\n%s", err, page)
	}
}

// Stopping what does not run is no error.
func TestDownWithoutADaemon(t *testing.T) {
	if code, out, err := play(t, "down"); code != exit.OK || out != "no daemon runs\n" || err != "" {
		t.Errorf("%d %q %q", code, out, err)
	}
	if code, out, _ := play(t, "down", "--json"); code != exit.OK || out != `{"pid":0,"stopped":false}`+"\n" {
		t.Errorf("%d %q", code, out)
	}
}

func TestNoDaemon(t *testing.T) {
	digest := string(questiontest.SampleDigest)
	for _, args := range []string{
		"status", "tools list", "tools show x", "tools call x", "approvals list", "approvals show x",
		"approvals decide x allow --digest " + digest,
		"approvals watch", "approvals export", "leases list", "leases show x", "leases revoke x", "grants list",
		"sessions list", "sessions show x", "sessions close x",
		"calls list", "calls show x", "calls cancel x", "runs list", "runs show x", "runs attach x", "runs cancel x",
		"run --script /dev/null", "workspace add .", "workspace list", "workspace remove .", "agent add x", "agent list",
		"agent remove x",
		"operator list", "operator remove x", "access user list", "access user add user:x", "access token list",
		"access roles", "access whoami", "access whoami --agent",
		"device list", "device show x", "device revoke x", "device pair", "console", "keys list", "keys export",
		"keys rotate journal", "journal tail", "journal verify", "journal export", "journal proof 1",
		"attest show x", "mcp add x https://example.com", "mcp list", "mcp show x", "mcp approve x", "mcp remove x",
		"policy show", "policy why x", "policy snapshot", "policy check .", "policy replay", "policy suggest",
		"policy apply .", "policy history", "policy rollback",
	} {
		t.Run(args, func(t *testing.T) {
			code, out, err := play(t, strings.Fields(args)...)
			if code != exit.NoDaemon || out != "" || !strings.Contains(err, "\n  remedy: ") || !strings.Contains(err, "palyra up") {
				t.Errorf("exit %d\nstdout %s\nstderr %s", code, out, err)
			}
		})
	}
}

// exec has a code of its own for a daemon that is not there: any other could be
// the command's. It is told before stdin is read.
func TestExecWithoutADaemon(t *testing.T) {
	code, out, err := play(t, "exec", "--", "ls")
	if code != exit.Palyra || out != "" || !strings.Contains(err, "\n  remedy: ") || !strings.Contains(err, "palyra up") {
		t.Errorf("exit %d\nstdout %s\nstderr %s", code, out, err)
	}
	code, out, err = play(t, "exec", "--json", "--", "ls")
	if code != exit.Palyra || out != "" || !strings.Contains(err, `"reason_code":"no_daemon"`) || strings.Count(err, "\n") != 1 {
		t.Errorf("exit %d\nstdout %s\nstderr %s", code, out, err)
	}
}

func TestErrorsAsJSON(t *testing.T) {
	code, out, err := play(t, "approvals", "show", "x", "--json")
	var got struct {
		Error exit.Message `json:"error"`
	}
	if json.Unmarshal([]byte(err), &got) != nil || strings.Count(err, "\n") != 1 {
		t.Fatalf("stderr %s", err)
	}
	if code != exit.NoDaemon || out != "" || got.Error.Reason != client.ReasonNoDaemon || got.Error.Code != palyra.Unavailable ||
		got.Error.Text == "" || got.Error.Remedy == "" {
		t.Errorf("exit %d, %+v", code, got)
	}
	code, _, err = play(t, "approvals", "show", "--json")
	if code != exit.Usage || json.Unmarshal([]byte(err), &got) != nil || got.Error.Text != "ID is missing" {
		t.Errorf("exit %d, %s", code, err)
	}
}

func TestErrorsAreMadeSafe(t *testing.T) {
	_, _, err := play(t, "b\x1b[2Jogus")
	if strings.Contains(err, "\x1b") {
		t.Errorf("%q", err)
	}
	inv := &invocation.Invocation{}
	var out bytes.Buffer
	inv.Stderr = &out
	code := inv.Finish(palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "no\r\x1b[1Ayes").WithRemedy("ask\nroot"))
	if want := "palyra: no\\r\\x1b[1Ayes\n  remedy: ask\\nroot\n"; out.String() != want || code != exit.Unauthorised {
		t.Errorf("%d %q", code, out.String())
	}
}

func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := Main(ctx, Process{
		Args: []string{"status"}, Env: []string{"PALYRA_HOME=" + t.TempDir()}, Stdin: strings.NewReader(""),
		Stdout: &out, Stderr: &errs,
	})
	if code != exit.Cancelled {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if err := exit.Interrupted(exit.Usagef("x")); exit.Of(err) != exit.Usage {
		t.Errorf("a usage error became %v", err)
	}
}
