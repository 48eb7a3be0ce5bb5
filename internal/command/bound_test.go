package command

import (
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"palyra"
	"palyra/internal/program"
)

func TestTablesLoad(t *testing.T) {
	tab, err := compile(program.Shipped())
	if err != nil {
		t.Fatal(err)
	}
	if len(tab.programs) < 400 || len(tab.env) == 0 {
		t.Errorf("%d programs, %d variables", len(tab.programs), len(tab.env))
	}
	for name, s := range tab.programs {
		if s.Harmless && s.Class != string(palyra.CommandReadOnly) {
			t.Errorf("%s is harmless and %s", name, s.Class)
		}
	}
}

func TestTablesRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no json":       `{`,
		"unknown field": `{"weird": 1}`,
		"no source":     `{"programs": [{"names": ["x"]}]}`,
		"no name":       `{"programs": [{"source": "x(1)"}]}`,
		"twice":         `{"programs": [{"names": ["x", "x"], "source": "x(1)"}]}`,
		"class":         `{"programs": [{"names": ["x"], "source": "x(1)", "class": "nice"}]}`,
		"raise":         `{"programs": [{"names": ["x"], "source": "x(1)", "raise": {"nice": "-x"}}]}`,
		"set":           `{"programs": [{"names": ["x"], "source": "x(1)", "use": ["y"]}]}`,
		"expression":    `{"programs": [{"names": ["x"], "source": "x(1)", "match": {"-x": "("}}]}`,
		"operand":       `{"programs": [{"names": ["x"], "source": "x(1)", "operand": "("}]}`,
		"sub":           `{"programs": [{"names": ["x"], "source": "x(1)", "sub": {"y": {"class": "nice"}}}]}`,
		"set's raise":   `{"sets": {"y": {"raise": {"nice": "-x"}}}, "programs": [{"names": ["x"], "source": "x(1)", "use": ["y"]}]}`,
		"env":           `{"harmless": {"X": "("}}`,
	} {
		if _, err := loadTables(fstest.MapFS{"table/x.json": {Data: []byte(text)}}); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

// loadTables reads tables from files.
func loadTables(files fs.FS) (*tables, error) {
	known, err := program.Load(files)
	if err != nil {
		return nil, err
	}
	return compile(known)
}

// What the tables name must be what the code knows; otherwise it is unknown.
func TestStrangeTablesAreUnknown(t *testing.T) {
	const text = `{"programs": [
		{"names": ["a"], "source": "x", "class": "read_only", "args": "weird"},
		{"names": ["b"], "source": "x", "class": "read_only", "wrap": {"kind": "weird"}},
		{"names": ["c"], "source": "x", "class": "read_only", "args": "script", "language": "weird"}]}`
	tab, err := loadTables(fstest.MapFS{"table/x.json": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		r := &reading{tables: tab}
		r.read(Input{Argv: []string{name, "x"}, Workspace: "/w"}, nil)
		if got := r.result(); got.Understood {
			t.Errorf("%s is understood", name)
		}
	}
	r := &reading{tables: &tables{}}
	r.read(Input{Argv: []string{"ls"}}, nil)
	if got := r.result(); got.Understood {
		t.Error("something is understood without tables")
	}
}

// What the parser takes for words of one command is a command of its own to some
// shell: found by running lines through dash and bash.
func TestWhereShellsDiffer(t *testing.T) {
	for _, script := range []string{
		"echo #\\\nnosuch", "ls &>/dev/null nosuch", "ls # x\\\n-l", "echo a |& nosuch", "ls \\", "echo <<<a nosuch", "echo 10>&1",
	} {
		if got := Analyse(Input{Script: script, Cwd: "/w", Workspace: "/w"}); got.Understood {
			t.Errorf("%q is understood: %+v", script, got)
		}
	}
	if got := Analyse(Input{Script: "ls \\\n -l # x", Cwd: "/w", Workspace: "/w"}); got.Understood {
		t.Error("a comment and a line that goes on are understood")
	}
	if got := Analyse(Input{Script: "ls \\\n -l", Cwd: "/w", Workspace: "/w"}); !got.Understood {
		t.Error("a line that goes on is not understood")
	}
}

func TestBounds(t *testing.T) {
	many := func(word string, n int) []string {
		out := []string{"cat"}
		for range n {
			out = append(out, word)
		}
		return out
	}
	paths := []string{"cat"}
	for i := range maxOutside + 1 {
		paths = append(paths, "/x"+strconv.Itoa(i))
	}
	for name, in := range map[string]Input{
		"words":    {Argv: many("x", maxWords)},
		"bytes":    {Argv: []string{"cat", strings.Repeat("x", maxArgvBytes)}},
		"script":   {Script: "ls " + strings.Repeat(" ", maxScript)},
		"commands": {Script: strings.Repeat("ls;", maxCommands+1)},
		"nested":   {Script: strings.Repeat("(", maxNested+1) + "ls" + strings.Repeat(")", maxNested+1)},
		"if":       {Script: strings.Repeat("if ", 20000)},
		"subst":    {Script: strings.Repeat("echo $(", 500) + strings.Repeat(")", 500)},
		"cd":       {Script: "cd a;cd b;cd c;cd d; ls"},
		"outside":  {Argv: paths},
		"path":     {Argv: []string{"cat", "/" + strings.Repeat("x", maxPath)}},
		"name":     {Argv: []string{strings.Repeat("x", maxName+1)}},
		"no text":  {Argv: []string{"ls", "\xff"}},
		"nul":      {Script: "ls \x00"},
		"return":   {Script: "ls \r"},
		"wrap":     {Argv: append(strings.Fields(strings.Repeat("nice ", maxDepth+1)), "ls")},
	} {
		in.Workspace = "/w"
		got := Analyse(in)
		if got.Understood || got.Class != palyra.CommandUnknown {
			t.Errorf("%s: class %s, understood %v", name, got.Class, got.Understood)
		}
		if len(got.Why) > maxWhy || len(got.Outside) > maxOutside {
			t.Errorf("%s: %d reasons, %d paths", name, len(got.Why), len(got.Outside))
		}
	}
	got := Analyse(Input{Argv: []string{"git", "\x1b[2J" + strings.Repeat("ü", 1000)}, Workspace: "/w"})
	if why := got.Why[0]; len(why) > maxWhyBytes || strings.Contains(why, "\x1b") || !utf8.ValidString(why) {
		t.Errorf("a reason is %q", why)
	}
	if got := Analyse(Input{Argv: append(strings.Fields(strings.Repeat("nice ", maxDepth)), "ls"), Workspace: "/w"}); !got.Understood {
		t.Errorf("%d wrappers: %q", maxDepth, got.Why)
	}
}
