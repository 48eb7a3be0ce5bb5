package command

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

// sample is one line of testdata/commands.txt.
type sample struct {
	line   int
	text   string
	class  palyra.CommandClass
	code   bool
	doubt  bool
	argv   []string
	script string
}

func (s sample) input() Input {
	return Input{Argv: s.argv, Script: s.script, Cwd: "/w", Workspace: "/w"}
}

// samples reads the table of commands.
func samples(t testing.TB) []sample {
	t.Helper()
	data, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []sample
	var head sample
	for i, l := range strings.Split(string(data), "\n") {
		switch {
		case l == "" || strings.HasPrefix(l, "# "):
		case strings.HasPrefix(l, "["+"read_only") || strings.HasPrefix(l, "[build") || strings.HasPrefix(l, "[write") ||
			strings.HasPrefix(l, "[destructive") || strings.HasPrefix(l, "[unknown"):
			words := strings.Fields(strings.Trim(l, "[]"))
			head = sample{class: palyra.CommandClass(words[0]), code: slices.Contains(words, "code")}
			head.doubt = slices.Contains(words, "doubtful") || head.class == palyra.CommandUnknown
		default:
			s := head
			s.line, s.text = i+1, l
			if script, ok := strings.CutPrefix(l, "$ "); ok {
				s.script = script
			} else {
				s.argv = split(l)
			}
			out = append(out, s)
		}
	}
	return out
}

// split divides a line at spaces; single quotes keep words together.
func split(l string) []string {
	var out []string
	var b strings.Builder
	quoted, any := false, false
	for _, c := range l {
		switch {
		case c == '\'':
			quoted, any = !quoted, true
		case c == ' ' && !quoted:
			if any {
				out = append(out, b.String())
			}
			b.Reset()
			any = false
		default:
			b.WriteRune(c)
			any = true
		}
	}
	if any {
		out = append(out, b.String())
	}
	return out
}

func TestTableOfCommands(t *testing.T) {
	all := samples(t)
	if len(all) < 400 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, s := range all {
		got := Analyse(s.input())
		if got.Class != s.class || got.Understood == s.doubt || got.RunsCode != s.code {
			t.Errorf("line %d: %s\n is %s understood=%v code=%v, want %s understood=%v code=%v\n %q",
				s.line, s.text, got.Class, got.Understood, got.RunsCode, s.class, !s.doubt, s.code, got.Why)
		}
		if got.Shell != (s.script != "" || got.Shell && shellIn(got.Programs)) {
			t.Errorf("line %d: %s: shell is %v", s.line, s.text, got.Shell)
		}
	}
}

func shellIn(programs []string) bool {
	return slices.ContainsFunc(programs, func(p string) bool {
		return slices.Contains(strings.Fields("sh bash ash dash zsh fish cmd powershell pwsh watch flock"), p)
	})
}

// What the answer says about a few commands, to the last field.
func TestWholeAnswer(t *testing.T) {
	in := func(argv ...string) Input { return Input{Argv: argv, Cwd: "/w/sub", Workspace: "/w"} }
	for _, c := range []struct {
		in   Input
		want palyra.Command
	}{
		{in("ls", "..", "../..", "/w/x", "/etc"), palyra.Command{
			Class: "read_only", Understood: true, Programs: []string{"ls"}, Outside: []string{"/", "/etc"},
		}},
		{in("env", "LC_ALL=C", "git", "-C", "..", "push"), palyra.Command{
			Class: "destructive", Understood: true, RunsCode: true, Subcommand: "push", Programs: []string{"env", "git"},
			Why: []string{"git push: reaches beyond this machine"},
		}},
		{in("timeout", "5", "sh", "-c", "cat a | sort > ../../b"), palyra.Command{
			Class: "write", Understood: true, Shell: true, Programs: []string{"timeout", "sh", "cat", "sort"}, Outside: []string{"/b"},
			Why: []string{"the shell writes ../../b"},
		}},
		{in("git", "stash", "list"), palyra.Command{Class: "read_only", Understood: true, Subcommand: "stash list", Programs: []string{"git"}}},
		{Input{}, palyra.Command{Class: "unknown", RunsCode: true, Why: []string{"there is no command"}}},
		{in("curl", "-sI", "https://example.org"), palyra.Command{ // ordinary options: they are not what is unknown
			Class: "unknown", RunsCode: true, Programs: []string{"curl"}, Why: []string{"curl: reaches other machines"},
		}},
		{in("sort", "-Z", "a"), palyra.Command{
			Class: "unknown", RunsCode: true, Programs: []string{"sort"}, Why: []string{"sort -Z is not a known option"},
		}},
		{in("cat", "a/../../../x"), palyra.Command{
			Class: "read_only", Understood: true, Programs: []string{"cat"}, Outside: []string{"/x"},
		}},
		{in("cat", "link/../x"), palyra.Command{
			Class: "read_only", Understood: true, Programs: []string{"cat"}, Outside: []string{"/w/sub/x"},
		}},
	} {
		if d := cmp.Diff(c.want, Analyse(c.in)); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.in.Argv, d)
		}
	}
}

// Paths are anchored from everywhere the shell may stand.
func TestOutside(t *testing.T) {
	for _, c := range []struct {
		script string
		want   []string
	}{
		{"cat a ./b sub/c /w/d", nil},
		{"cat /w", nil},
		{"cat /w2/x", []string{"/w2/x"}},
		{"cat ~/x '~u'", []string{"~/x", "~u"}},
		{"cat /etc/*.conf ../*", []string{"/etc", "/"}},
		{"cd sub && cat ../x", nil}, // runs only where cd did not fail
		{"cd sub; cat ../x", []string{"/x"}},
		{"cd sub || cat ../x", []string{"/x"}},
		{"cd sub && ls && cd .. && cat x", nil},
		{"cd sub && ls && cd ..; cat ../x", []string{"/x"}},
		{"cd sub && cd .. && cat ../x", []string{"/x"}},
		{"cd sub && ls; cat ../x", []string{"/x"}},
		{"(cd sub && ls) && cat ../x", []string{"/x"}},
		{"! cd sub && cat ../x", []string{"/x"}},
		{"cd sub & cat ../x", []string{"/x"}},
		{"cd /etc && cat passwd", []string{"/etc", "/etc/passwd"}},
		{"ls && cd sub && npm test && cd ../src && cat ../x", nil},
		{"cd sub && cat ../../x", []string{"/x"}},
		{"cd /etc; cat passwd", []string{"/etc", "/etc/passwd"}},
		{"cat < /etc/passwd", []string{"/etc/passwd"}},
		{"grep -f /etc/x /y z", []string{"/y", "/etc/x"}},
		{"grep /y z", nil},
		{"git -C / status", []string{"/"}},
		{"ls -l > /dev/null 2> /dev/stderr", nil},
		{"sort -o /x y", []string{"/x"}},
		{"cp -t /x y", []string{"/x"}},
		{"tar -C /x -xf y", []string{"/x", "/x/y"}},
	} {
		got := Analyse(Input{Script: c.script, Cwd: "/w", Workspace: "/w"})
		if d := cmp.Diff(c.want, got.Outside); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.script, d)
		}
	}
}

// Without a workspace nothing is inside one.
func TestNoWorkspace(t *testing.T) {
	for _, ws := range []string{"", "/", "w", "../w"} {
		if got := Analyse(Input{Argv: []string{"cat", "x"}, Cwd: "/w", Workspace: ws}); len(got.Outside) != 1 {
			t.Errorf("workspace %q: outside is %q", ws, got.Outside)
		}
		if got := Analyse(Input{Argv: []string{"go", "test"}, Cwd: "/w", Workspace: ws}); got.Understood {
			t.Errorf("workspace %q: a build is understood", ws)
		}
	}
	if got := Analyse(Input{Argv: []string{"go", "test"}, Cwd: "/elsewhere", Workspace: "/w"}); got.Understood {
		t.Error("a build elsewhere is understood")
	}
	if got := Analyse(Input{Argv: []string{"go", "test"}, Cwd: "sub", Workspace: "/w"}); !got.Understood {
		t.Errorf("a build in a directory below is not understood: %q", got.Why)
	}
}

// A name is worth nothing when another file runs.
func TestOfLooksAtTheFile(t *testing.T) {
	plan := func(called, file string) palyra.Plan {
		return palyra.Plan{
			Argv: []string{called, "--version"}, Executable: palyra.Executable{Path: file},
			Cwd: "/w", Workspace: palyra.WorkspaceRef{Path: "/w"}, Env: []palyra.EnvVar{{Name: "PATH", Value: "/usr/bin:/opt/path"}},
		}
	}
	for _, c := range []struct {
		called, file string
		want         bool
	}{
		{"ls", "/usr/bin/ls", true},
		{"ls", "/opt/tools/ls", true},
		{"/opt/path/ls", "/opt/path/ls", true},
		{"/opt/tools/ls", "/opt/tools/ls", false},
		{"/usr/bin/ls", "/usr/bin/ls", true},
		{"./ls", "/usr/bin/ls", false},
		{"../ls", "/ls", false},
		{"ls", "/usr/bin/rm", false},
		{"ls", "/w/bin/ls", false},
		{"ls", "/tmp/ls", false},
		{"ls", "", false},
		{"ls", "bin/ls", false},
		{"ls", "/bin/busybox", true},
		{"python3", "/usr/bin/python3.12", true},
		{"npm", "/usr/lib/node_modules/npm/bin/npm-cli.js", true},
		{"npm", "/usr/bin/npm-evil", false},
		{"nosuch", "/usr/bin/nosuch", false},
	} {
		if got := Of(plan(c.called, c.file)); got.Understood != c.want {
			t.Errorf("%s as %s: understood is %v: %q", c.file, c.called, got.Understood, got.Why)
		}
	}
	sealed := plan("ls", "/usr/bin/ls")
	sealed.Executable.Sealed = true
	if Of(sealed).Understood {
		t.Error("a program that the call could write is understood")
	}
	if got := Of(palyra.Plan{}); got.Understood || got.Class != palyra.CommandUnknown {
		t.Errorf("no command is %+v", got)
	}
}

// Programs that wrappers and shells find by name may be the workspace's when PATH
// leads there.
func TestOfLooksAtPath(t *testing.T) {
	for value, want := range map[string]bool{
		"/usr/bin:/opt/x": true, "/usr/bin:/w/bin": false, "/w": false, ".:/usr/bin": false,
		"/tmp/bin:/usr/bin": false, "/usr/bin:": false,
	} {
		p := palyra.Plan{
			Argv: []string{"nice", "ls"}, Executable: palyra.Executable{Path: "/usr/bin/nice"}, Cwd: "/w",
			Workspace: palyra.WorkspaceRef{Path: "/w"}, Env: []palyra.EnvVar{{Name: "PATH", Value: value}},
		}
		if got := Of(p); got.Understood != want {
			t.Errorf("PATH=%s: understood is %v", value, got.Understood)
		}
	}
}
