//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// dotenvSecret is a value of .env files in the tests, and dotenvText a file with it.
const (
	dotenvSecret = "sk_live_5uperSecretOfThisTest"
	dotenvText   = "# of the server\nPORT=8731\nexport API_KEY='" + dotenvSecret + "'\nURL=postgres://u:" + dotenvSecret + "@h/db\n"
)

// serve starts a server at the port of .env, and asks it.
const serve = `set -e; . ./.env; mkdir -p "$TMPDIR/pub"; cd "$TMPDIR/pub"
python3 -m http.server "$PORT" --bind 127.0.0.1 >/dev/null 2>&1 &
python3 - "$PORT" <<'END'
import sys, time, urllib.request
for i in range(100):
    try:
        print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://127.0.0.1:" + sys.argv[1]).read().decode()); break
    except OSError:
        time.sleep(0.1)
END`

var maskedValue = regexp.MustCompile(`palyra-masked-[a-z]{20}`)

// dotenvs writes the files.
func (d *daemon) dotenvs() {
	d.t.Helper()
	for _, name := range []string{".env", "conf/prod.env", "odd\xff/.env.local", "secrets/real"} {
		d.put(name, dotenvText)
	}
	for link, to := range map[string]string{"conf/settings": "../.env", "current.env": "secrets/real"} {
		path := filepath.Join(d.work, link)
		if err := os.Symlink(to, path); err != nil {
			d.t.Fatal(err)
		}
		d.give(path)
	}
	if err := os.Link(filepath.Join(d.work, ".env"), filepath.Join(d.work, "twin")); err != nil {
		d.t.Fatal(err)
	}
}

// maskedOnly makes sure that a text shows .env files without their secrets.
func maskedOnly(t *testing.T, what, text string, files int) {
	t.Helper()
	if strings.Contains(text, dotenvSecret) || strings.Count(text, "PORT=8731") != files ||
		len(maskedValue.FindAllString(text, -1)) < 2*files {
		t.Errorf("%s shows\n%s", what, text)
	}
}

// Every way in shows copies of .env files, whatever name or link leads there; servers find their ports; and nothing of it
// can be changed from inside.
func TestDotenvFilesAreMasked(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		d := newDaemon(t)
		if live { // as root where the tests are
			d.mustStart(shipped...)
		} else {
			d.ownWork()
			d.mustStart(shipped...)
		}
		d.inWorkspace()
		d.dotenvs()
		all := []string{".env", "conf/prod.env", "odd\xff/.env.local", "secrets/real", "twin"}
		if live { // no file that is sealed has two names there
			all = all[:4]
			if err := os.Remove(filepath.Join(d.work, "twin")); err != nil {
				t.Fatal(err)
			}
		}
		if live && os.Geteuid() == 0 {
			chownTree(t, d.work, 0)
		}
		runs := func(line string) palyra.Outcome {
			t.Helper()
			if live {
				out, _ := d.allowed(d.inRoom(map[string]any{"live": true}, "sh", "-c", line))
				return out
			}
			r := d.inRoom(nil, "sh", "-c", line)
			r.NoWait = true // what it left may be asked about
			out, err := d.client(client.AgentDoor).Call(t.Context(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		out := runs(`cat .env conf/prod.env conf/settings current.env secrets/real $(ls twin) "$(printf 'odd\377/.env.local')"`)
		maskedOnly(t, "cat", out.Stdout, 2+len(all))
		if p := predicate(t, out); !slices.Contains(p.Enforcement.Mechanisms, "masked_dotenv") {
			t.Errorf("it is attested with %v", p.Enforcement.Mechanisms)
		}
		if again := runs("cat .env"); again.Stdout == "" || !strings.HasPrefix(out.Stdout, again.Stdout) {
			t.Errorf("another run prints\n%s", again.Stdout)
		}
		if out := runs(serve); !strings.Contains(out.Stdout, "Directory listing") || strings.Contains(out.Stdout, dotenvSecret) {
			t.Errorf("a server finds %q %q", out.Stdout, out.Stderr)
		}
		for _, line := range []string{
			"sed -i s/8731/1/ .env", "echo X=1 >> .env", "rm -f .env", "mv .env x", "mv conf moved", "ln -f .env second && cat second",
			"chmod 600 conf/prod.env",
			"cp /dev/null x && mv -f x .env", "echo x > secrets/real",
		} {
			out := runs(line)
			if out.ExitCode == 0 || strings.Contains(out.Stdout+out.Stderr, dotenvSecret) {
				t.Errorf("%s: %d %q %q", line, out.ExitCode, out.Stdout, out.Stderr)
			}
			if strings.HasPrefix(line, "sed") && (out.ReasonCode != palyra.ReasonSealDenied || !strings.Contains(out.Remedy, "dotenv.unmasked")) {
				t.Errorf("%s: %s %q %q\n%s", line, out.ReasonCode, out.Reason, out.Remedy, out.Stderr)
			}
		}
		if out := runs("cp .env copy.txt; cp -r conf kept"); !live && !slices.Contains(out.Left, "placeholder_written:copy.txt") &&
			!slices.ContainsFunc(out.Left, func(s string) bool { return strings.HasPrefix(s, "placeholder_written: copy.txt") }) {
			t.Errorf("placeholders went into a file, and it says %q", out.Left)
		}
		for _, name := range all {
			if b, err := os.ReadFile(filepath.Join(d.work, name)); string(b) != dotenvText {
				t.Errorf("%q is %q now, %v", name, b, err)
			}
		}
		d.verify()
	}
}

func chownTree(t *testing.T, dir string, id int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The file tools, the command line and the hook show the same copies, and placeholders never take the place of values.
func TestDotenvInToolsAndHooks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(shipped...)
	d.inWorkspace()
	d.dotenvs()
	agent := d.client(client.AgentDoor)
	call := func(tool palyra.ToolName, args map[string]any) palyra.Outcome {
		t.Helper()
		raw, _ := json.Marshal(args)
		out, err := agent.Call(t.Context(), client.CallRequest{
			Tool: tool, Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI, NoWait: true,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, path := range []string{".env", "conf/prod.env", "conf/settings", "current.env", "secrets/real", "twin", `"odd\xff/.env.local"`} {
		maskedOnly(t, "fs.read "+path, string(call(palyra.ToolFileRead, map[string]any{"path": path}).Output), 1)
	}
	found := string(call(palyra.ToolFileSearch, map[string]any{"pattern": "PORT|KEY|URL|sk_live"}).Output)
	maskedOnly(t, "fs.search", found, 5)
	if err := os.Remove(filepath.Join(d.work, "twin")); err != nil { // a live run has no file of two names that is sealed
		t.Fatal(err)
	}
	exec, err := d.palyra("exec", "--", "cat", ".env").CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	maskedOnly(t, "palyra exec", string(exec), 1)
	read, err := d.palyra("tools", "call", "palyra.fs.read", "--input", `{"path":".env"}`).Output()
	if err != nil {
		t.Error(err)
	}
	maskedOnly(t, "palyra tools call", string(read), 1)

	const moves = "diff --git a/.env b/plain\nsimilarity index 100%\n"
	masked := maskedValue.FindString(string(exec))
	for name, out := range map[string]palyra.Outcome{
		"edit":  call(palyra.ToolFileEdit, map[string]any{"path": ".env", "old_string": "PORT=8731", "new_string": "PORT=1"}),
		"guess": call(palyra.ToolFileEdit, map[string]any{"path": ".env", "old_string": "sk_live_5", "new_string": "x"}),
		"patch": call(palyra.ToolFilePatch, map[string]any{"patch": moves + "rename from .env\nrename to plain\n"}),
		"copy":  call(palyra.ToolFilePatch, map[string]any{"patch": moves + "copy from .env\ncopy to plain\n"}),
		"write": call(palyra.ToolFileWrite, map[string]any{"path": ".env", "content": "API_KEY=" + masked + "\n"}),
		"new":   call(palyra.ToolFileWrite, map[string]any{"path": "new/.env.local", "content": "API_KEY=" + masked + "\n", "make_dirs": true}),
	} {
		if out.ReasonCode != palyra.ReasonSealDenied || out.Remedy == "" {
			t.Errorf("%s: %s %s %q", name, out.Outcome, out.ReasonCode, out.Reason)
		}
	}
	a, _, ch, err := question(t.Context(), agent, d.client(client.OperatorDoor), client.CallRequest{
		Tool: palyra.ToolFileWrite, Arguments: json.RawMessage(`{"path":"conf/prod.env","content":"PORT=1\n"}`), Workspace: d.work,
		Surface: palyra.SurfaceCLI,
	})
	if err != nil {
		t.Fatal(err)
	}
	shown, _ := json.Marshal(a)
	if strings.Contains(string(shown), dotenvSecret) || !slices.Contains(a.Plan.Guarded, "conf/prod.env") {
		t.Errorf("the question is %s", shown)
	}
	no := client.DecideRequest{ID: a.ID, Digest: a.PlanDigest, Answer: palyra.AnswerDeny, Scope: palyra.ScopeOnce}
	if _, err := d.client(client.OperatorDoor).Decide(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	<-ch

	for _, name := range []string{".env", "conf/settings", "secrets/real"} {
		says, code, errs := d.hook(d.preToolUse("Read", map[string]any{"file_path": filepath.Join(d.work, name)}))
		if code != 0 || says.Specific.Decision != "deny" {
			t.Errorf("the hook's Read of %s: %d %+v %s", name, code, says, errs)
		}
		maskedOnly(t, "the hook's Read of "+name, says.Specific.Reason, 1)
	}
	for glob, want := range map[string]string{"": "deny", "*.env": "deny", "*.go": "allow"} {
		in := map[string]any{"pattern": "KEY"}
		if glob != "" {
			in["glob"] = glob
		}
		if says, code, errs := d.hook(d.preToolUse("Grep", in)); code != 0 || says.Specific.Decision != want ||
			strings.Contains(says.Specific.Reason, dotenvSecret) {
			t.Errorf("the hook's Grep of %q: %d %+v %s", glob, code, says, errs)
		}
	}
	for _, name := range []string{".env", "conf/prod.env"} {
		if b, err := os.ReadFile(filepath.Join(d.work, name)); string(b) != dotenvText {
			t.Errorf("%s is %q now, %v", name, b, err)
		}
	}
	d.verify()
	d.keepsNot(dotenvSecret)
}

// Where an operator wants the values shown they are, and the plan says so; tier B, which has no room to mask anything in,
// runs nothing beside them otherwise.
func TestDotenvUnmasked(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	b := d.program("cat", ".env")
	b.Arguments = json.RawMessage(`{"command":"cat","args":[".env"],"tier":"b"}`)
	d.put(".env", "PORT=8731\n")
	if out, _ := d.allowed(b); out.Stdout != "PORT=8731\n" {
		t.Errorf("tier b, nothing to mask: %q %q %s", out.Stdout, out.Stderr, out.Reason)
	}
	d.put(".env", dotenvText)
	if out, _ := d.agreed(b); out.ReasonCode != palyra.ReasonWeakEnforcement || strings.Contains(out.Stdout, "PORT") ||
		!strings.Contains(out.Remedy, "tier c") {
		t.Errorf("tier b: %s %q %q %q", out.ReasonCode, out.Reason, out.Remedy, out.Stdout)
	}
	d.stop()
	d.mustStart(append(slices.Clone(shipped), "PALYRA_DOTENV_UNMASKED="+d.work)...)
	out, a := d.allowed(d.inRoom(map[string]any{"live": true}, "cat", ".env"))
	if out.Stdout != dotenvText || slices.Contains(a.Plan.Enforcement.Mechanisms, "masked_dotenv") ||
		!strings.Contains(strings.Join(a.Prompt.Notes, "\n"), "NOT masked") {
		t.Errorf("%q %q, told %q", out.Stdout, out.Stderr, a.Prompt.Notes)
	}
	if out, _ := d.agreed(b); out.Stdout != dotenvText {
		t.Errorf("tier b: %q %s", out.Stdout, out.Reason)
	}
	read, err := d.palyra("tools", "call", "palyra.fs.read", "--input", `{"path":".env"}`).Output()
	if err != nil || !strings.Contains(string(read), dotenvSecret) {
		t.Errorf("%s, %v", read, err)
	}
}

// A run beside that moves all it can, in the very workspace, gains nothing for another one, nor for itself.
func TestDotenvBesideAnAdversary(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	d.put(".env", dotenvText)
	d.put("conf/deep/prod.env", dotenvText)
	const moves = `until [ -e stop ]; do mv .env x; mv conf c1; mv conf/deep conf/d2; mv conf/deep/prod.env p; ln .env l; ln conf/deep/prod.env m
mkdir -p c3 && echo A=1 > c3/.env && mv -T c3 conf; cat .env conf/deep/prod.env x l m p c1/deep/prod.env; mv x .env; mv c1 conf; rm -rf c3; done 2>/dev/null`
	over := make(chan palyra.Outcome, 1)
	beside := d.inRoom(map[string]any{"live": true}, "sh", "-c", moves)
	go func() {
		out, _ := d.agreed(beside)
		over <- out
	}()
	agent := d.client(client.AgentDoor)
	for i := range 12 {
		r := d.inRoom(nil, "sh", "-c", "cat .env conf/deep/prod.env */*.env */*/*.env x l m p; exit 0")
		r.NoWait = true
		out, err := agent.Call(t.Context(), r, nil)
		if err != nil || strings.Contains(out.Stdout+out.Stderr+out.Reason, dotenvSecret) {
			t.Errorf("run %d: %v %s %q", i, err, out.Reason, out.Stdout)
		}
		if out.Outcome != palyra.OutcomeFinished && out.ReasonCode != palyra.ReasonSpawnFailed {
			t.Errorf("run %d: %s %s %s", i, out.Outcome, out.ReasonCode, out.Reason)
		}
	}
	d.put("stop", "")
	if out := <-over; strings.Contains(out.Stdout, dotenvSecret) || out.Outcome != palyra.OutcomeFinished || out.Stdout == "" {
		t.Errorf("the one beside: %s %s %.2000q", out.Outcome, out.Reason, out.Stdout)
	}
	for _, name := range []string{".env", "conf/deep/prod.env"} {
		if b, err := os.ReadFile(filepath.Join(d.work, name)); string(b) != dotenvText {
			t.Errorf("%s is %q now, %v", name, b, err)
		}
	}
}

// An MCP server of the workspace and an agent in its own room see the same copies: nothing of the values is in their memory.
func TestDotenvInOtherRooms(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	d.put("prod.env", dotenvText)
	d.put(".env", dotenvText)
	if err := os.Symlink("prod.env", filepath.Join(d.work, "settings")); err != nil {
		t.Fatal(err)
	}
	d.give(filepath.Join(d.work, "settings"))
	s := &staging{daemon: d, as: func(_ string, args ...string) *exec.Cmd { return d.palyra(args...) }}
	_, ended := s.agent(`cat .env prod.env settings; palyra tools call palyra.fs.read --input '{"path":".env"}'`)
	out := <-ended
	maskedOnly(t, "an agent", out.Stdout, 4)
	d.mcpServer("small", true)
	for _, name := range []string{".env", "prod.env", "settings"} {
		out, _ := d.agreed(mcpCall("mcp.small.read", map[string]any{"path": filepath.Join(d.work, name)}))
		maskedOnly(t, "an MCP server's read of "+name, string(out.Output), 1)
	}
	written, _ := d.agreed(mcpCall("mcp.small.write", map[string]any{"path": filepath.Join(d.work, ".env")}))
	if strings.Contains(string(written.Output), `"written"`) {
		t.Errorf("an MCP server writes: %s", written.Output)
	}
	for _, name := range []string{".env", "prod.env"} {
		if b, err := os.ReadFile(filepath.Join(d.work, name)); string(b) != dotenvText {
			t.Errorf("%s is %q now, %v", name, b, err)
		}
	}
	d.keepsNot(dotenvSecret)
}

// Two runs of an agent's do not find a value out: not by a link that leaves the workspace and comes back, and not by guesses that are
// masked like the value.
func TestDotenvBesideGuessesAndLinks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	d.put("secrets/real", dotenvText)
	path := filepath.Join(d.work, "current.env")
	if err := os.Symlink("../"+filepath.Base(d.work)+"/secrets/real", path); err != nil {
		t.Fatal(err)
	}
	d.give(path)
	const value = "DATABASE_URL=postgres://app:hunter2@db/prod\n"
	d.put(".env", value)
	runs := func(line string) palyra.Outcome {
		t.Helper()
		r := d.inRoom(nil, "sh", "-c", line)
		r.NoWait = true
		out, err := d.client(client.AgentDoor).Call(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	maskedOnly(t, "cat", runs("cat current.env secrets/real").Stdout, 2)
	runs(`for p in password letmein hunter2 hunter3; do echo "DATABASE_URL=postgres://app:$p@db/prod"; done > guess.env; cp guess.env .env.local
mkdir -p a && echo "DATABASE_URL=postgres://app:hunter2@db/prod" > a/.env`)
	out := runs("cat .env guess.env .env.local a/.env").Stdout
	all := maskedValue.FindAllString(out, -1)
	if len(all) != 10 || slices.Contains(all[1:], all[0]) || strings.Contains(out, "hunter2") {
		t.Errorf("it finds\n%s", out)
	}
	// A link that goes is asked about: what it led to would be an ordinary file.
	if out := runs("rm current.env"); out.ReasonCode != palyra.ReasonEffectsDropped {
		t.Errorf("the link goes: %s %s %s", out.Outcome, out.ReasonCode, out.Reason)
	}
	maskedOnly(t, "cat", runs("cat secrets/real").Stdout, 1)
}
