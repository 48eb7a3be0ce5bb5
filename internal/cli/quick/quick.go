// Package quick answers what agents and loops ask of the command most often, in a program that links nothing else and so
// starts in a few milliseconds: 'version', and 'exec -- CMD' as long as nothing about it is special.
//
// A command is special when a person has to be asked, when it is refused, when it takes its time or prints much, when it
// has something to read, when its output goes to a terminal, or when anything has to be said about it. It is then left
// to the full program. Where the call was proposed already, that one is handed the connection, and all that came by it:
// it goes on as if it had proposed the call itself, nothing runs twice, and nothing was printed before.
//
// Promises: it prints and returns what the full program would, or nothing; it never asks, and never signs.
package quick

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Process is what the surrounding process gives to the command.
type Process struct {
	Version string   // stamped by the build
	Args    []string // without the command's own name
	Env     []string // name=value
}

// Answer is what became of a command line.
type Answer struct {
	Code int      // its exit code, when it is done
	Full []string // the arguments to leave it to the full program with; nil: it is done
}

// Run answers a command line, or says how the full program goes on.
func Run(p Process, stdout, stderr io.Writer) Answer {
	home, args := p.home()
	switch {
	case len(args) == 1 && args[0] == "version":
		ThisBuild(p.Version).Print(stdout)
		return Answer{}
	case len(args) > 2 && args[0] == "exec" && args[1] == "--" && plain(args[2:]) && !namesAnother(p.Env):
		return execute(p, home, args[2:], stdout, stderr)
	}
	return Answer{Full: p.Args}
}

// homeFlag is the one flag before a command that leaves it an ordinary one.
const homeFlag = "--home"

// Words is what a command line says: its first word that is no flag, and whether it has one. It says nothing of lines
// that cannot be told without the flags of commands.
func Words(args []string) (first string, told bool) {
	for i := 0; i < len(args); i++ {
		switch w := args[i]; {
		case w == homeFlag || w == "--remote":
			i++
		case w == "--json" || w == "--quiet" || w == "-q" || w == "--no-color" ||
			strings.HasPrefix(w, homeFlag+"=") || strings.HasPrefix(w, "--remote="):
		case strings.HasPrefix(w, "-"):
			return "", false
		default:
			return w, true
		}
	}
	return "", true
}

// Program is the name of the program that goes on with arguments: the terminal UI has one of its own, without the
// other commands, which starts in half the time. Bare it may be the terminal UI as well.
func Program(args []string) string {
	first, told := Words(args)
	plain := slices.ContainsFunc(args, func(w string) bool { return w == "--plain" || strings.HasPrefix(w, "--plain=") })
	if told && !plain && (first == "" || first == "tui") {
		return TUIName
	}
	return FullName
}

// IsExec reports whether arguments are those of exec, whose own failures have an exit code that no program's are taken for.
func IsExec(args []string) bool {
	_, rest := Process{Args: args}.home()
	return len(rest) > 0 && rest[0] == "exec"
}

// home splits the arguments: the directory that --home names before the command, or "", and what follows.
func (p Process) home() (dir string, rest []string) {
	switch {
	case len(p.Args) > 1 && p.Args[0] == homeFlag:
		return p.Args[1], p.Args[2:]
	case len(p.Args) > 0 && strings.HasPrefix(p.Args[0], homeFlag+"="):
		return p.Args[0][len(homeFlag)+1:], p.Args[1:]
	}
	return "", p.Args
}

// plain reports whether a command's words are the same text in every encoding on the way.
func plain(argv []string) bool {
	return argv[0] != "" && !slices.ContainsFunc(argv, func(w string) bool {
		return !utf8.ValidString(w) || strings.ContainsAny(w, "\u2028\u2029\ufffd")
	})
}

// namesAnother reports whether the environment asks for another daemon than this user's own, or for a call as an agent.
func namesAnother(env []string) bool {
	return slices.ContainsFunc(env, func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		return value != "" && (name == RemoteVariable || name == TokenVariable)
	})
}

// Colourless reports whether the environment asks for no colours.
func Colourless(env []string) bool {
	return slices.ContainsFunc(env, func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		return name == "NO_COLOR" && value != "" || pair == "TERM=dumb"
	})
}

// The flags of exec by which the full program goes on: the descriptors of a connection and of what came by it, and a
// signal that came as well.
const (
	AdoptFlag     = "adopt"
	SignalledFlag = "signalled"
)

// The variables that name another daemon, and the file with a named agent's token. There is no variable or flag for
// the token itself: both are visible to other programs.
const (
	RemoteVariable = "PALYRA_REMOTE"
	TokenVariable  = "PALYRA_AGENT_TOKEN_FILE"
)
