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
	for _, line := range []string{"cat <<X\na\nX\n", `printf '%s\n' a 'b c'`, `printf '100%% %5d|%-3s\n' 1 n`, "env -u LANG ls", "cat a \\\n b"} {
		if c := Analyse(Input{Argv: []string{"bash", "-c", line}, Cwd: "/w", Workspace: "/w"}); !c.Understood || c.Class != palyra.CommandReadOnly {
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
			Argv: []string{"make", "test"}, Arguments: json.RawMessage(arguments), Cwd: "/w", Workspace: palyra.WorkspaceRef{Path: "/w", Known: true},
			Executable: palyra.Executable{Path: "/usr/bin/make"},
		})
		if c.Understood != understood {
			t.Errorf("%s is %+v: want understood %v", arguments, c, understood)
		}
	}
}
