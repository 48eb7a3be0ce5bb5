// Package command reads what a command would do from its words alone: which programs run, through which
// wrappers and shells, whether words can make them run other code, which paths lead out of the workspace, and
// what class that makes it.
//
// The meaning of programs and their options stands in internal/program, with the manual it was read from. A command
// starts as unknown, and gets a better class only when every word is in the tables: an option that is not there, an
// abbreviation of one, a word that is made while a shell runs, a program of another place than the system's – each
// leaves it unknown, with RunsCode set. A destructive command stays destructive, understood or not.
//
// The package runs nothing, opens no file and keeps no state. It therefore sees no symbolic links, no aliases
// and no configuration: what a program is told by its files (a git configuration, a Makefile) is the
// sandbox's matter. Nothing that confines a run may rely on what this package says.
//
// Its words are those of docs/words.md.
package command

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/subpath"
)

// Limits of the analysis. A larger command is unknown.
const (
	maxArgvBytes = 256 << 10
	maxWords     = 4096
	maxScript    = 64 << 10
	maxDepth     = 8   // wrappers and shells inside each other
	maxCommands  = 256 // simple commands of all shell lines
	maxOutside   = 64
	maxWhy       = 16
	maxWhyBytes  = 200
	maxName      = 255
	maxPath      = 4096
)

// Input is a command to look at: words, or a line for a shell.
type Input struct {
	Argv      []string
	Script    string // read when Argv is empty
	Cwd       string // relative to Workspace when it is not absolute
	Workspace string
}

// Analyse tells what a command would do. Programs are taken from the system: a path
// to one elsewhere is not understood.
func Analyse(in Input) palyra.Command {
	r := &reading{tables: shipped()}
	r.read(in, nil)
	return r.result()
}

// Of tells what a plan's program would do. The file that runs must be the one that the first word names, and
// must not come from the workspace or be writable by the call.
func Of(p palyra.Plan) palyra.Command {
	if len(p.Argv) == 0 {
		return Analyse(Input{})
	}
	dirs := searchDirs(p)
	r := &reading{tables: shipped(), ownPath: slices.ContainsFunc(dirs,
		func(dir string) bool { return writableByOthers(p.Workspace.Path, dir) })}
	r.asked = len(p.Signers) > 0 && len(p.Egress)+len(p.Bindings) == 0 && p.Tier == palyra.TierC && p.Enforcement.Mode == palyra.NetworkStrict
	r.checkVariables(p.Arguments)
	if p.Terminal {
		r.doubt("on a terminal programs start others, such as pagers, and take orders")
	}
	if strings.Contains(p.Argv[0], "/") && !slices.Contains(slices.Concat(systemDirs(), dirs), path.Dir(p.Argv[0])) {
		r.doubt("the program is not one that is found by its name")
	}
	r.read(Input{Argv: p.Argv, Cwd: p.Cwd, Workspace: p.Workspace.Path}, &p.Executable)
	return r.result()
}

// checkVariables looks at the variables that a call asks for, as at those in front of a command. Those of a
// profile are an operator's own and not among them.
func (r *reading) checkVariables(arguments json.RawMessage) {
	if len(arguments) == 0 {
		return
	}
	var a struct {
		Env map[string]string `json:"env"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		r.doubt("the call's variables are not known")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		r.assign(name, a.Env[name])
	}
}

// searchDirs are the directories where the run looks programs up.
func searchDirs(p palyra.Plan) []string {
	for _, v := range p.Env {
		if v.Name == "PATH" {
			return strings.Split(v.Value, ":")
		}
	}
	return nil
}

// writableByOthers reports whether a directory is one that the workspace or any user can put files into.
func writableByOthers(workspace, dir string) bool {
	clean := subpath.Clean(dir)
	return !path.IsAbs(dir) || anchors(workspace, clean) || scratch(clean)
}

func (r *reading) read(in Input, exe *palyra.Executable) {
	at := newScope(in)
	if len(in.Argv) == 0 {
		if in.Script == "" {
			r.doubt("there is no command")
			return
		}
		r.shellLine(in.Script, at, 0)
		return
	}
	if !bounded(in.Argv) {
		r.doubt("the command is too long to be looked at")
		return
	}
	words := make([]word, len(in.Argv))
	for i, a := range in.Argv {
		words[i] = literalWord(strings.ToValidUTF8(a, "\uFFFD"))
		if words[i].text != a || strings.ContainsRune(a, 0) {
			r.doubt("a word is not valid text")
		}
	}
	if exe != nil {
		r.executable(in.Argv[0], exe, at)
		words[0] = literalWord(path.Base(words[0].text))
	}
	r.command(words, at, 0)
}

func bounded(argv []string) bool {
	n := 0
	for _, a := range argv {
		n += len(a)
	}
	return n <= maxArgvBytes && len(argv) <= maxWords
}

// executable looks at the file that runs: a name says nothing about a file that somebody put in its way.
func (r *reading) executable(called string, exe *palyra.Executable, at scope) {
	name, file := path.Base(called), path.Base(exe.Path)
	switch {
	case exe.Path == "" || !path.IsAbs(exe.Path):
		r.doubt("the program's file is not known")
	case exe.Sealed:
		r.doubt("the call could change the program's file")
	case writableByOthers(at.workspace, exe.Path):
		r.doubt("the program is one of the workspace or of a temporary directory")
	case name != file && !r.tables.standsFor(name, file):
		r.doubt(name + " is really " + file)
	}
}

// command looks at one command: its program and the words after it.
func (r *reading) command(words []word, at scope, depth int) {
	if depth > maxDepth {
		r.doubt("commands are nested too deeply")
		return
	}
	if r.commands++; r.commands > maxCommands {
		r.doubt("there are too many commands")
		return
	}
	if len(words) == 0 || words[0].text == "" || !words[0].fixed() {
		r.doubt("the program is not named by a plain word")
		r.obey()
		return
	}
	name := r.program(words[0].text, depth)
	r.fetch(name, words[1:])
	s := r.tables.named(name)
	if s == nil {
		r.doubt(name + " is not a known program")
		r.obey()
		return
	}
	if s.obeys || s == r.tables.programs["eval"] {
		r.obey()
	}
	c := &invocation{reading: r, name: name, at: at, depth: depth}
	c.apply(s, words[1:])
}

// program notes the program that a word names and returns its name.
func (r *reading) program(called string, depth int) string {
	name := path.Base(called)
	if strings.Contains(called, "/") && !slices.Contains(systemDirs(), path.Dir(called)) {
		r.doubt(name + " is not one of the system's programs")
		r.obey()
	}
	if depth > 0 && r.ownPath {
		r.doubt("programs may be found in the workspace")
	}
	if len(name) > maxName {
		r.doubt("the program's name is too long")
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	if !slices.Contains(r.programs, name) {
		r.programs = append(r.programs, name)
	}
	return name
}

func systemDirs() []string {
	return []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
}
