package process

import (
	"slices"
	"strings"
	"testing"

	"palyra"
)

// A script is run by who its first line names, as the kernel would have it for a
// file, or by the shell.
func TestScripted(t *testing.T) {
	for script, want := range map[string]string{
		"echo x":                                 "/bin/sh|-c",
		" #!/usr/bin/python3\n":                  "/bin/sh|-c", // not at the start
		"#!/bin/sh\necho x":                      "/bin/sh|-c",
		"#!/bin/sh -eu\necho x":                  "/bin/sh|-eu|-c",
		"#!/usr/bin/env -S node --no-warnings\n": "node|--no-warnings|-e",
		"#!/usr/bin/env python3\nprint(1)":       "python3|-c",
		"#!  /usr/bin/env   python3.11  \n":      "python3.11|-c",
		"#!/usr/bin/env -S python3 -u -B\n":      "python3|-u|-B|-c",
		"#!/usr/bin/python3 -u\nprint(1)":        "/usr/bin/python3|-u|-c",
		"#!/usr/bin/env node\nconsole.log(1)":    "node|-e",
		"#!/opt/perl/bin/perl5.36 -w\nprint 1":   "/opt/perl/bin/perl5.36|-w|-e",
		"#!/usr/bin/env ruby\nputs 1":            "ruby|-e",
		"#!/usr/bin/env pypy3\nprint(1)":         "pypy3|-c",
		"#!/usr/bin/zsh":                         "/usr/bin/zsh|-c",
		"#!/usr/bin/zsh\n":                       "/usr/bin/zsh|-c",
	} {
		name, args, err := scripted(script)
		if err != nil || args[len(args)-1] != script || strings.Join(append([]string{name}, args[:len(args)-1]...), "|") != want {
			t.Errorf("%q: %s %q, %v", script, name, args, err)
		}
	}
	for _, script := range []string{"-x", "+x"} {
		if name, args, err := scripted(script); err != nil || name != shell || !slices.Equal(args, []string{"-c", "\n" + script}) {
			t.Errorf("%q: %s %q, %v", script, name, args, err)
		}
	}
}

// What would be run by somebody else than it says is refused, with a way out.
func TestScriptedRefuses(t *testing.T) {
	for script, why := range map[string]string{
		"#!":                                    "no kernel",
		"#!\necho x":                            "no kernel",
		"#!   \necho x":                         "no kernel",
		"#!/bin/sh\r\necho x":                   "no kernel",
		"#!/usr/bin/env python3\r\n":            "no kernel",
		"#!/" + strings.Repeat("x", 300) + "\n": "no kernel",
		"#!python3\n":                           "not absolute",
		"#!bin/sh\n":                            "not absolute",
		"#!/usr/bin/env\n":                      "plain name",
		"#!/usr/bin/env -S\n":                   "plain name",
		"#!/usr/bin/env -i\n":                   "plain name",
		"#!/usr/bin/env -S -i sh\n":             "plain name",
		"#!/usr/bin/env A=1\n":                  "plain name",
		"#!/usr/bin/env ./python3\n":            "plain name",
		"#!/usr/bin/env python3 -u\n":           "called",
		"#!/usr/bin/env -S python3 '-u'\n":      "quotes",
		"#!/usr/bin/env -S ${X}\n":              "quotes",
		"#!/usr/bin/env -S python3 evil.py\n":   "no option",
		"#!/usr/bin/env -S python3 --\n":        "no option",
		"#!/bin/sh evil\n":                      "no option",
		"#!/bin/sh -\n":                         "no option",
		"#!/bin/bash -o pipefail\n":             "no option", // one argument, as from the kernel: bash takes -c for the name of an option
		"#!/bin/bash --rcfile\necho shown":      "no option", // these take -c or -e for a value, and the script for a file
		"#!/bin/bash -rcfile\necho shown":       "no option",
		"#!/usr/bin/zsh -b\necho shown":         "no option",
		"#!/usr/bin/python3 -W\nprint(1)":       "no option",
		"#!/usr/bin/python3 -IX\nprint(1)":      "no option",
		"#!/usr/bin/python3 -m\nprint(1)":       "no option", // this one runs ./-c.py
		"#!/usr/bin/perl -wI\nprint 1":          "no option",
		"#!/usr/bin/env -S ruby -r\n":           "no option",
		"#!/usr/bin/env -S node --env-file\n":   "no option",
		"#!/usr/bin/env -S node -r\n":           "no option",
		"#!/usr/bin/env php\n":                  "takes no script",
		"#!/usr/bin/make -f\n":                  "takes no script",
		"#!/usr/bin/awk -f\n":                   "takes no script",
		"#!/usr/bin/env 3\n":                    "takes no script",
		"#!/bin/\n":                             "takes no script",
	} {
		name, args, err := scripted(script)
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonMalformedInput || e.Remedy == "" || !strings.Contains(e.Text, why) {
			t.Errorf("%q: %s %q, %v, want %q", script, name, args, err, why)
		}
	}
}

// Whatever the first line says, the script is the last argument, behind the option
// by which it is taken, and nothing before it is anything but an option.
func FuzzScripted(f *testing.F) {
	for _, s := range []string{
		"x", "-x", "#!/bin/sh -e\nx", "#!/usr/bin/env -S python3 -u\nx", "#!/usr/bin/env node\n",
		"#! /usr/bin/perl\t-w\n", "#!\x00/bin/sh\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		name, args, err := scripted(script)
		if err != nil {
			return
		}
		n := len(args)
		if name == "" || n < 2 || strings.TrimPrefix(args[n-1], "\n") != strings.TrimPrefix(script, "\n") || args[n-2] != taker(name).option {
			t.Fatalf("%q: %q %q", script, name, args)
		}
		for _, o := range args[:n-1] {
			if len(o) < 2 || o[0] != '-' || o == "--" {
				t.Fatalf("%q: %q %q", script, name, args)
			}
		}
		if !strings.HasPrefix(script, "#!") && name != shell {
			t.Fatalf("%q: %q", script, name)
		}
	})
}

// The option by which an interpreter takes a script is one that the table knows to bring program text.
func TestScriptsAreInstructions(t *testing.T) {
	for name, by := range takers {
		if r := ruleFor(name); r == nil || !slices.Contains(r.Instructions(), by.option) {
			t.Errorf("%s %s brings no text, says the table", name, by.option)
		}
	}
}
