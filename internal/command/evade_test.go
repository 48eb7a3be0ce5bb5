package command

import (
	"encoding/json"
	"testing"

	"palyra"
)

// Lines that the parser reads as a look and shells as something else, or that
// change where the shell finds the next program.
func TestLinesThatShellsReadOtherwise(t *testing.T) {
	for name, line := range map[string]string{
		"a text that ends in two lines":      "cat <<XX\nX\\\nX\ntouch p\nXX\n",
		"a text that ends after a backslash": "cat <<X\n\\\nX\ntouch p\nX\n",
		"the same with tabs":                 "cat <<-X\n\tX\\\n\ntouch p\nX\n",
		"printf sets PATH":                   `printf 'abc%n' PATH; ls`,
		"with a width":                       `printf '%-5.3n' PATH; ls`,
		"with a length":                      `printf '%s%%%ln' a PATH; ls`,
		"no PATH at all":                     `env -i bash -c tree`,
		"no PATH, short":                     `env - bash -c tree`,
		"PATH taken away":                    `env -u PATH bash -c tree`,
		"PATH taken away, long":              `env --unset=PATH bash -c tree`,
	} {
		t.Run(name, func(t *testing.T) {
			if c := Analyse(Input{Argv: []string{"bash", "-c", line}, Cwd: "/w", Workspace: "/w"}); c.Understood || !c.RunsCode {
				t.Errorf("%q is %+v: want it not understood", line, c)
			}
		})
	}
	for _, line := range []string{
		"cat <<X\na\nX\n", `printf '%s\n' a 'b c'`, `printf '100%% %5d|%-3s\n' 1 n`, "env -u LANG ls",
		"cat a \\\n b",
	} {
		if c := Analyse(Input{Argv: []string{"bash", "-c", line}, Cwd: "/w", Workspace: "/w"}); !c.Understood ||
			c.Class != palyra.CommandReadOnly {
			t.Errorf("%q is %+v: want an understood look", line, c)
		}
	}
}

// Words that a program takes for other options or values than most would.
func TestWordsThatProgramsReadOtherwise(t *testing.T) {
	for _, argv := range [][]string{
		{"tree", "-Po", "x", "out"}, // -P takes x, -o writes out
		{"tree", "-aIo", "x", "out"},
		{"tree", "-L2o", "out"},
		{"tree", "-oP", "out", "x"},
		{"git", "for-each-ref", "--format", "%(signature)"}, // a value in a word of its own is the same value
		{"git", "for-each-ref", "--format=%(signature)"},
	} {
		if c := Analyse(Input{Argv: argv, Cwd: "/w", Workspace: "/w"}); c.Understood || !c.RunsCode {
			t.Errorf("%q is %+v: want it not understood", argv, c)
		}
	}
	for _, argv := range [][]string{
		{"tree", "-L", "2"},
		{"tree", "-L2"},
		{"tree", "-aL", "2", "-I", "node_modules", "src"},
		{"git", "for-each-ref", "--format", "%(refname:short)", "refs/heads"},
		{"git", "for-each-ref", "--format=%(refname)"},
	} {
		if c := Analyse(Input{Argv: argv, Cwd: "/w", Workspace: "/w"}); !c.Understood || c.Class != palyra.CommandReadOnly {
			t.Errorf("%q is %+v: want an understood look", argv, c)
		}
	}
}

// Variables that a call brings count as those in front of a command.
func TestVariablesOfTheCall(t *testing.T) {
	for arguments, understood := range map[string]bool{
		`{"command":"make"}`:                              true,
		`{"command":"make","env":{}}`:                     true,
		`{"command":"make","env":{"CI":"1","LANG":"C"}}`:  true,
		`{"command":"make","env":{"GO":"sh -c 'x'"}}`:     false,
		`{"command":"make","env":{"CI":"1","RM":"./rm"}}`: false,
		`{"command":"make","env":{"GOOS":"../x"}}`:        false,
		`{"command":"make","env":[]}`:                     false,
		`{`:                                               false,
	} {
		c := Of(palyra.Plan{
			Argv: []string{"make", "test"}, Arguments: json.RawMessage(arguments), Cwd: "/w",
			Workspace:  palyra.WorkspaceRef{Path: "/w", Known: true},
			Executable: palyra.Executable{Path: "/usr/bin/make"},
		})
		if c.Understood != understood {
			t.Errorf("%s is %+v: want understood %v", arguments, c, understood)
		}
	}
}

// A pattern is as many words as there are files of such names, and a directory with
// a file in it can have the name of any option.
func TestPatternsAreManyWords(t *testing.T) {
	for _, line := range []string{
		"uniq a*", "xxd a*", "git symbolic-ref refs/*", // which write their second word
		"sort -T */* a", "sort --random-source */* a", "rg -f */* x", "git blame --contents */* a", "date -r *",
	} {
		if c := Analyse(Input{Argv: []string{"sh", "-c", line}, Cwd: "/w", Workspace: "/w"}); c.Understood || !c.RunsCode {
			t.Errorf("%q is %+v: want it not understood", line, c)
		}
	}
	for _, line := range []string{"uniq a.txt", "wc -l *.go", "cat src/*.go", "sort a*"} {
		if c := Analyse(Input{Argv: []string{"sh", "-c", line}, Cwd: "/w", Workspace: "/w"}); !c.Understood || c.Class != palyra.CommandReadOnly {
			t.Errorf("%q is %+v: want an understood look", line, c)
		}
	}
}

// A directory that an option names may be a link: what is above it is not what it
// seems.
func TestAboveALink(t *testing.T) {
	for _, argv := range [][]string{
		{"env", "-C", "a/link", "cat", "../x"},
		{"git", "-C", "a/link", "diff", "--no-index", "../x", "y"},
		{"git", "-C", "a", "-C", "..", "status"},
		{"make", "-C", "a/link", "-f", "../x"},
		{"go", "build", "-C", "a/link", "../x"},
	} {
		if c := Analyse(Input{Argv: argv, Cwd: "/w", Workspace: "/w"}); c.Understood {
			t.Errorf("%q is %+v: want it not understood", argv, c)
		}
	}
	if c := Analyse(Input{Argv: []string{"git", "-C", "sub", "diff", "x"}, Cwd: "/w", Workspace: "/w"}); !c.Understood || len(c.Outside) > 0 {
		t.Errorf("%+v", c)
	}
}

// What a build is told to write over is not the work itself.
func TestBuildsOverTheWork(t *testing.T) {
	for name, want := range map[string]palyra.CommandClass{
		"Makefile": palyra.CommandWrite, "sub/Dockerfile": palyra.CommandWrite, "LICENSE": palyra.CommandWrite, "gradlew": palyra.CommandWrite,
		"configure": palyra.CommandWrite, "go.mod": palyra.CommandWrite, "-": palyra.CommandBuild,
		"app": palyra.CommandBuild, "bin/app": palyra.CommandBuild, "App": palyra.CommandBuild, "build": palyra.CommandBuild,
		"a.out": palyra.CommandBuild,
	} {
		if c := Analyse(Input{Argv: []string{"go", "build", "-o", name, "."}, Cwd: "/w", Workspace: "/w"}); c.Class != want {
			t.Errorf("%s: %+v, want %s", name, c, want)
		}
	}
}

// On a terminal git and others run a pager.
func TestTerminals(t *testing.T) {
	for terminal, understood := range map[bool]bool{false: true, true: false} {
		c := Of(palyra.Plan{
			Argv: []string{"git", "log"}, Terminal: terminal, Cwd: "/w", Workspace: palyra.WorkspaceRef{Path: "/w", Known: true},
			Executable: palyra.Executable{Path: "/usr/bin/git"},
		})
		if c.Understood != understood || c.RunsCode == understood {
			t.Errorf("terminal %v: %+v", terminal, c)
		}
	}
}

// A build writes what is hidden as little from where it stands as by its name, and
// what is in a repository's own files is not the work.
func TestBuildsWhereHidden(t *testing.T) {
	for _, line := range []string{
		"cd .git && go build -o hooks/pre-commit /w/x", "cd .git/hooks && go test -coverprofile=x /w/x", "go -C .git build -o hooks/x .",
		"go build -C .git/hooks -o x .", "env -C .git go build -o hooks/x .", "cd .git && tsc --outDir hooks a.ts",
		"cd .git && cargo build --target-dir hooks",
		"cd .github/workflows && go build -o ci .", "cd .vscode && go test -o tasks .", "go build -C .cargo -o config .",
		"cd sub/.husky && go build -o _ .",
		"cd .git && make", "make -C .git", "cd sub/.git && go test ./...", "go build -o githooks/pre-commit .", "go test -o hooks/commit-msg .",
		"go build -o dune .",
	} {
		c := Analyse(Input{Argv: []string{"sh", "-c", line}, Cwd: "/w", Workspace: "/w"})
		if c.Understood && (c.Class == palyra.CommandReadOnly || c.Class == palyra.CommandBuild) {
			t.Errorf("%q is %+v: want it to be asked about", line, c)
		}
	}
	for _, line := range []string{
		"cd sub && go build -o app .", "go build -C sub -o bin/app .", "cd .config && make",
		"cd .github && go vet ./...",
	} {
		for _, workspace := range []string{"/w", "/home/u/.work/w"} {
			if c := Analyse(Input{Argv: []string{"sh", "-c", line}, Cwd: workspace, Workspace: workspace}); !c.Understood ||
				c.Class != palyra.CommandBuild || len(c.Outside) > 0 {
				t.Errorf("%q is %+v: want a build", line, c)
			}
		}
	}
}
