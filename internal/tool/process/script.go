package process

import (
	"path"
	"regexp"
	"strings"

	"palyra"
	"palyra/internal/show"
)

// shell runs scripts without a "#!" line. It is part of every system and every room.
const shell = "/bin/sh"

// taking is how an interpreter takes a script as an argument, so that it is bound with the others: the option for
// it, and the options that may stand before that one. Those take no value: one that does would take the script's
// option as its value, and the script, which people were shown, for the name of a file, which they were not.
type taking struct {
	option string
	alone  *regexp.Regexp
}

var (
	shells  = taking{"-c", regexp.MustCompile(`^-[aCeEfhlmnpuvx]+$`)}
	pythons = taking{"-c", regexp.MustCompile(`^-[bBdEIOPqsSuv]+$`)}
	perls   = taking{"-e", regexp.MustCompile(`^-[aclnpstTUwWX0-7]+$`)}
	rubies  = taking{"-e", regexp.MustCompile(`^-[aclnpsvwWU0-2]+$`)}
	nodes   = taking{"-e", regexp.MustCompile(`^--((no|experimental|enable|trace|use|expose|harmony)-[a-z-]+|[a-z0-9-]+=\S+)$`)}
)

var takers = map[string]taking{
	"sh": shells, "bash": shells, "dash": shells, "ash": shells, "zsh": shells, "ksh": shells, "mksh": shells,
	"python": pythons, "pypy": pythons, "node": nodes, "nodejs": nodes, "perl": perls, "ruby": rubies,
}

// scripted returns the program that runs a script and its arguments: the shell or, where the script begins with
// "#!", the interpreter of that line. The script is the last argument and cannot be taken for an option.
func scripted(script string) (name string, args []string, err error) {
	in, found, ok := shebang([]byte(script))
	switch {
	case !found && (strings.HasPrefix(script, "-") || strings.HasPrefix(script, "+")):
		return shell, []string{"-c", "\n" + script}, nil
	case !found:
		return shell, []string{"-c", script}, nil
	case !ok || strings.Contains(in.path+in.arg, "\r"):
		return "", nil, unscripted("no kernel would take its #! line").
			WithRemedy("write it as #!/usr/bin/env NAME, with a line feed alone at the end")
	}
	name, options, err := named(in)
	if err != nil {
		return "", nil, err
	}
	by := taker(name)
	if by.option == "" {
		return "", nil, unscripted("%s takes no script as an argument", show.Arg(name)).
			WithRemedy("write it to a file of the workspace and run that; sh, bash, zsh, python, node, perl and ruby can be given one")
	}
	for _, o := range options {
		if !by.alone.MatchString(o) {
			return "", nil, unscripted("%s on its #! line is no option of %s that is known to stand alone", show.Arg(o), show.Arg(path.Base(name))).
				WithRemedy("have only options without values there, of env -S alone; say the rest in the script (set -o pipefail, use lib)")
		}
	}
	return name, append(options, by.option, script), nil
}

// named returns the interpreter of a "#!" line and its options; for env that is env's program.
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
	case len(words) > 1 && !several: // the kernel passes them as one argument
		return "", nil, unscripted("env would look for a program called %s", show.Arg(in.arg)).
			WithRemedy("write it as #!/usr/bin/env -S %s", show.Line(in.arg))
	}
	return words[0], words[1:], nil
}

// unscripted refuses a script.
func unscripted(format string, args ...any) *palyra.Error {
	return malformed("the script cannot be run: "+format, args...)
}

// taker returns how a program takes a script, by its name with or without a version; the zero value: it cannot.
func taker(name string) taking {
	base := path.Base(name)
	if by, ok := takers[base]; ok {
		return by
	}
	return takers[strings.TrimRight(base, "0123456789.")]
}
