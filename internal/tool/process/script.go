package process

import (
	"path"
	"strings"

	"palyra"
	"palyra/internal/show"
)

// shell runs scripts that name nobody else. It is part of every system and every
// room.
const shell = "/bin/sh"

// takers are the interpreters that take a script as an argument, so that it is
// bound with the others, and the option by which they do.
var takers = map[string]string{
	"sh": "-c", "bash": "-c", "dash": "-c", "ash": "-c", "zsh": "-c", "ksh": "-c", "mksh": "-c",
	"python": "-c", "pypy": "-c", "node": "-e", "nodejs": "-e", "perl": "-e", "ruby": "-e",
}

// scripted is the program that runs a script and what it is given: the shell or,
// where the script begins with "#!", what that line names. The script is the last
// argument and cannot pass for an option.
func scripted(script string) (name string, args []string, err error) {
	in, found, ok := shebang([]byte(script))
	switch {
	case !found && (strings.HasPrefix(script, "-") || strings.HasPrefix(script, "+")):
		return shell, []string{"-c", "\n" + script}, nil
	case !found:
		return shell, []string{"-c", script}, nil
	case !ok || strings.Contains(in.path+in.arg, "\r"):
		return "", nil, unscripted("no kernel would take its #! line").WithRemedy("write it as #!/usr/bin/env NAME, with a line feed alone at the end")
	}
	name, options, err := named(in)
	if err != nil {
		return "", nil, err
	}
	option := taker(name)
	if option == "" {
		return "", nil, unscripted("%s takes no script as an argument", show.Arg(name)).
			WithRemedy("write it to a file of the workspace and run that; sh, bash, zsh, python, node, perl and ruby can be given one")
	}
	for _, o := range options {
		if len(o) < 2 || o[0] != '-' || o == "--" { // it would be taken for the script, or the script for a file
			return "", nil, unscripted("%s on its #! line is no option of %s", show.Arg(o), show.Arg(path.Base(name))).
				WithRemedy("have only options there; of env, -S alone")
		}
	}
	return name, append(options, option, script), nil
}

// named is who a "#!" line means, and with which options: env is asked for its
// program, everybody else is it.
func named(in interpreter) (name string, options []string, err error) {
	if path.Base(in.path) != "env" {
		if !path.IsAbs(in.path) {
			return "", nil, unscripted("%s on its #! line is not absolute", show.Arg(in.path)).WithRemedy("write it as #!/usr/bin/env NAME")
		}
		if in.arg != "" {
			options = []string{in.arg}
		}
		return in.path, options, nil
	}
	words, several := strings.Fields(in.arg), false
	if len(words) > 0 && words[0] == "-S" {
		words, several = words[1:], true
	}
	switch {
	case strings.ContainsAny(in.arg, `"'\$#`):
		return "", nil, unscripted("quotes and variables on its #! line are not understood").WithRemedy("write plain words there")
	case len(words) == 0 || words[0][0] == '-' || strings.ContainsAny(words[0], "=/"):
		return "", nil, unscripted("env is not told the plain name of a program").WithRemedy("write it as #!/usr/bin/env NAME")
	case len(words) > 1 && !several: // the kernel makes one argument of them
		return "", nil, unscripted("env would look for a program called %s", show.Arg(in.arg)).WithRemedy("write it as #!/usr/bin/env -S %s", show.Line(in.arg))
	}
	return words[0], words[1:], nil
}

// unscripted refuses a script.
func unscripted(format string, args ...any) *palyra.Error {
	return malformed("the script cannot be run: "+format, args...)
}

// taker is the option by which a program takes a script, by its name with or
// without a version; "": it takes none.
func taker(name string) string {
	base := path.Base(name)
	if o := takers[base]; o != "" {
		return o
	}
	return takers[strings.TrimRight(base, "0123456789.")]
}
