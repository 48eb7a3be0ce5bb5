package quick

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

func TestLeftToTheFullProgram(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"version", "--json"},
		{"--version"},
		{"help"},
		{"exec"},
		{"exec", "--"},
		{"exec", "true"},
		{"exec", "--help"},
		{"exec", "--", ""},
		{"exec", "--json", "--", "true"},
		{"--home", "/x", "exec", "--", "true"},
		{"exec", "--", "\xff"},
		{"exec", "--", "echo", "\u2028"},
		{"exec", "--", "echo", "\ufffd"},
		{"hook", "claude-code"},
		{"status"},
	} {
		if a := Run(Process{Args: args}, nil, nil); !slices.Equal(a.Full, args) || a.Full == nil {
			t.Errorf("%q: %+v", args, a)
		}
	}
	for _, env := range []string{"PALYRA_REMOTE=work", "PALYRA_AGENT_TOKEN_FILE=/x"} {
		args := []string{"exec", "--", "true"}
		if a := Run(Process{Args: args, Env: []string{"PALYRA_HOME=" + t.TempDir(), env}}, nil, nil); !slices.Equal(a.Full, args) {
			t.Errorf("%s: %+v", env, a)
		}
	}
	if namesAnother([]string{"PALYRA_REMOTE=", "HOME=/x"}) {
		t.Error("an empty variable counts")
	}
}

func TestHomeBeforeTheCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		dir  string
		rest int
	}{
		{[]string{"exec", "--home", "/x"}, "", 3},
		{[]string{"--home"}, "", 1},
		{[]string{"--home", "/x"}, "/x", 0},
		{[]string{"--home", "/x", "exec"}, "/x", 1},
		{[]string{"--home=/x", "exec"}, "/x", 1},
		{[]string{"--home=", "exec"}, "", 1},
		{[]string{"--homer=/x", "exec"}, "", 2},
		{nil, "", 0},
	} {
		if dir, rest := (Process{Args: c.args}).home(); dir != c.dir || len(rest) != c.rest {
			t.Errorf("%q: %q, %q", c.args, dir, rest)
		}
		if want := slices.Contains(c.args[:max(0, len(c.args)-c.rest)+min(1, c.rest)], "exec"); IsExec(c.args) != want {
			t.Errorf("%q: exec %v", c.args, !want)
		}
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if a := Run(Process{Version: "1\x1b2", Args: []string{"version"}}, &out, nil); a.Full != nil || a.Code != 0 ||
		!strings.HasPrefix(out.String(), `palyra 1\x1b2 `) {
		t.Errorf("%+v %q", a, out.String())
	}
}

// Every number that is used here is the one of the protocol, and every field of an outcome is known: a new one makes
// somebody decide whether it has to be shown.
func TestFields(t *testing.T) {
	number := func(m protoreflect.ProtoMessage, name string) int {
		f := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
		if f == nil {
			t.Fatalf("%T has no %s", m, name)
		}
		return int(f.Number())
	}
	for _, c := range []struct {
		of    protoreflect.ProtoMessage
		name  string
		known int
	}{
		{&v1.CallToolRequest{}, "tool", callTool},
		{&v1.CallToolRequest{}, "arguments", callArguments},
		{&v1.CallToolRequest{}, "workspace", callWorkspace},
		{&v1.CallToolRequest{}, "door", callDoor},
		{&v1.CallToolRequest{}, "stream_output", callStream},
		{&v1.CallToolRequest{}, "end_with_client", callTied},
		{&v1.CallToolResponse{}, "accepted", newsAccepted},
		{&v1.CallToolResponse{}, "outcome", newsOutcome},
		{&v1.CallToolResponse{}, "output", newsOutput},
		{&v1.CallToolResponse{}, "running", newsRunning},
		{&v1.CallOutput{}, "stream", outputStream},
		{&v1.CallOutput{}, "offset", outputOffset},
		{&v1.CallOutput{}, "data", outputData},
		{&v1.Outcome{}, "outcome", outcomeKind},
		{&v1.Outcome{}, "exit_code", outcomeExit},
		{&v1.Outcome{}, "stdout", outcomeStdout},
		{&v1.Outcome{}, "stdout_b64", outcomeStdout64},
		{&v1.Outcome{}, "stderr", outcomeStderr},
		{&v1.Outcome{}, "stderr_b64", outcomeStderr64},
		{&v1.Outcome{}, "attestation", outcomeAttestation},
		{&v1.ListWorkspacesResponse{}, "workspaces", listedWorkspace},
		{&v1.Workspace{}, "path", workspacePath},
	} {
		if got := number(c.of, c.name); got != c.known {
			t.Errorf("%T.%s is %d, not %d", c.of, c.name, got, c.known)
		}
	}
	var silent, said []string
	all := (&v1.Outcome{}).ProtoReflect().Descriptor().Fields()
	for i := range all.Len() {
		f := all.Get(i)
		switch n := int(f.Number()); {
		case slices.Contains(outcomeSilent[:], n):
			silent = append(silent, string(f.Name()))
		case !slices.Contains([]int{
			outcomeKind, outcomeExit, outcomeStdout, outcomeStdout64, outcomeStderr, outcomeStderr64, outcomeAttestation,
		}, n):
			said = append(said, string(f.Name()))
		}
	}
	if got := strings.Join(silent, " "); got !=
		"tool policies output session_id call_id approval_id grant_id plan_digest journal_position effects changes" {
		t.Errorf("silent: %s", got)
	}
	if got := strings.Join(said, " "); got !=
		"layer reason_code reason remedy signal truncated sealed_path_created left_behind input_changed" {
		t.Errorf("left to the full program: %s", got)
	}
	if string(palyra.OutcomeFinished) != "finished" {
		t.Error("a finished call is called otherwise")
	}
}

func TestProgramBeside(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "palyra")
	if _, err := programBeside(self, FullName); palyra.CodeOf(err) != palyra.NotFound || palyra.AsError(err).Remedy == "" {
		t.Errorf("none: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, FullName), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := programBeside(self, FullName); err != nil || got != filepath.Join(dir, FullName) {
		t.Errorf("%s, %v", got, err)
	}
}

// FuzzNews: whatever comes, nothing panics, and only a finished call ends.
func FuzzNews(f *testing.F) {
	output := appendBytes(appendBytes(nil, outputStream, "stdout"), outputData, "hello")
	outcome := appendBytes(appendBytes(nil, outcomeKind, "finished"), outcomeStdout, "hello\n")
	f.Add(appendBytes(appendBytes(nil, newsOutput, string(output)), newsOutcome, string(outcome)))
	f.Add([]byte{newsOutcome<<3 | wireBytes, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, msg []byte) {
		var n news
		if err := n.hear(msg); err == nil && n.done && !bytes.Contains(msg, []byte("finished")) {
			t.Errorf("%q ended a call", msg)
		}
	})
}

func TestNews(t *testing.T) {
	chunk := func(stream, data string, offset byte) string {
		b := appendBytes(appendBytes(nil, outputStream, stream), outputData, data)
		return string(appendBytes(nil, newsOutput, string(append(b, outputOffset<<3|wireVarint, offset))))
	}
	end := func(fields ...string) string {
		b := appendBytes(nil, outcomeKind, "finished")
		return string(appendBytes(nil, newsOutcome, string(b)+strings.Join(fields, "")))
	}
	text := func(n int, v string) string { return string(appendBytes(nil, n, v)) }
	exits := func(n byte) string { return string([]byte{outcomeExit<<3 | wireVarint, n}) }
	for name, c := range map[string]struct {
		messages []string
		want     string // "": it is left to the full program
	}{
		"in its order": {[]string{
			chunk("stderr", "b", 0), chunk("stdout", "a", 0), chunk("stderr", "c", 1),
			end(text(outcomeStdout, "a"), text(outcomeStderr, "bc")),
		}, "e:b o:a e:c 0"},
		"not all in pieces": {[]string{chunk("stdout", "a", 0), end(text(outcomeStdout, "ab"), exits(3))}, "o:a o:b 3"},
		"bytes":             {[]string{end(text(outcomeStdout64, "/wE="))}, "o:\xff\x01 0"},
		"no base64":         {[]string{end(text(outcomeStdout64, "!"))}, ""},
		"a gap":             {[]string{chunk("stdout", "a", 1), end(text(outcomeStdout, "xa"))}, ""},
		"other pieces":      {[]string{chunk("stdout", "x", 0), end(text(outcomeStdout, "a"))}, ""},
		"a third stream":    {[]string{chunk("sound", "x", 0), end()}, ""},
		"a signal":          {[]string{end(text(9, "SIGKILL"))}, ""},
		"interrupted":       {[]string{end(exits(130))}, ""},
		"a reason":          {[]string{end(text(4, "x"))}, ""},
		"read-only":         {[]string{end(text(outcomeStderr, "x: Read-only file system\n"))}, ""},
		"a question":        {[]string{text(2, "x"), end()}, ""},
		"two ends":          {[]string{end(), end()}, ""},
		"no end":            {[]string{chunk("stdout", "a", 0)}, ""},
		"refused":           {[]string{text(newsOutcome, text(outcomeKind, "refused"))}, ""},
		"it connected": {[]string{end(text(outcomeAttestation, `{"payload":"`+
			"eyJwcmVkaWNhdGUiOnsiZWdyZXNzIjpbeyJob3N0IjoieCJ9XX19"+`"}`))}, ""},
		"it did not connect": {[]string{end(text(outcomeAttestation, `{"payload":"e30="}`))}, "0"},
	} {
		var n news
		var err error
		for _, m := range c.messages {
			if err == nil {
				err = n.hear([]byte(m))
			}
		}
		got := ""
		if err == nil && n.done {
			for _, p := range n.printed {
				got += map[bool]string{false: "o:", true: "e:"}[p.failing] + string(p.data) + " "
			}
			got += string(rune('0' + n.code))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The terminal UI has a program of its own, and only what it draws is left to it.
func TestProgram(t *testing.T) {
	for _, line := range []string{
		"", "tui", "--home /x tui --bell", "--remote office", "--no-color tui", "--home=/x", "tui --help",
	} {
		if got := Program(strings.Fields(line)); got != TUIName {
			t.Errorf("%q: %s", line, got)
		}
	}
	for _, line := range []string{
		"tui --plain", "tui --plain=true", "--help", "help tui", "approvals list", "exec -- tui", "--what tui", "--version", "-h",
	} {
		if got := Program(strings.Fields(line)); got != FullName {
			t.Errorf("%q: %s", line, got)
		}
	}
}
