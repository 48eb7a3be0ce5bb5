package process

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"palyra"
	programs "palyra/internal/program"
	"palyra/internal/show"
)

const (
	maxChain = 4 // interpreters that lead to one another by "#!" lines
	maxWraps = 4 // programs that only run another, nested
)

// invocation is a program with its arguments: the command itself, the interpreter of its "#!" line,
// or a program that either of them runs.
type invocation struct {
	program
	called string   // its name as it will see it
	args   []string // without argv[0]
	script string   // the file whose "#!" line led here; empty: none
	wraps  int      // number of programs passed that only run another
}

// invoke binds the files that an invocation interprets, then follows "#!" lines to the native
// program that runs in the end and binds every interpreter on the way.
func (w *world) invoke(v invocation, p *palyra.Plan) error {
	for depth := 0; ; depth++ {
		in, found, ok := shebang([]byte(v.head))
		switch {
		case !found && !elf([]byte(v.head)):
			return unrunnable(v.real, "it is neither a native program nor a script with a #! line").
				WithRemedy("name its interpreter as command and the file as an argument, or begin it with #!/bin/sh")
		case found && !ok:
			return unrunnable(v.real, "its #! line names no interpreter, or one that is too long").
				WithRemedy("begin the file with #! and the path of a program")
		case found && depth == maxChain:
			return unrunnable(v.real, fmt.Sprintf("more than %d interpreters lead to one another", maxChain)).
				WithRemedy("name the native interpreter in the #! line")
		}
		if err := w.apply(v, p); err != nil || !found {
			return err
		}
		next, err := w.interpreter(v, in, p)
		if err != nil {
			return err
		}
		v = next
	}
}

// interpreter finds and binds the interpreter of a "#!" line. The kernel gives it the rest of the
// line as one argument, then the script and the script's arguments.
func (w *world) interpreter(v invocation, in interpreter, p *palyra.Plan) (invocation, error) {
	prog, err := w.program(w.abs(in.path), in.path, p) // never looked up on PATH: the kernel takes a bare name for one in cwd
	if err != nil {
		return invocation{}, unusable(v.real, in.path, err)
	}
	w.bindProgram(prog, p)
	var args []string
	if in.arg != "" {
		args = append(args, in.arg)
	}
	args = append(append(args, v.real), v.args...)
	return invocation{program: prog, called: in.path, args: args, script: v.real, wraps: v.wraps}, nil
}

// liveRemedy advises what to do instead of feeding an interpreter while it runs. A terminal is
// usually wanted without any input.
func liveRemedy(terminal bool) string {
	if terminal {
		return "leave out the terminal (-t of 'palyra exec'): what stands in the arguments or in a file then runs, without a terminal"
	}
	return "give the input as stdin, or put the instructions into a file and name it as an argument"
}

// apply applies the rules for all names of a program: the strictest of their refusals and all of their inputs.
func (w *world) apply(v invocation, p *palyra.Plan) error {
	found := rulesFor(append([]string{v.called}, v.names...), v.known)
	for _, r := range found {
		if p.Stdin == palyra.StdinLive && r.Live && !p.AgentSocket { // an agent is spoken to by its person
			return palyra.Errorf(palyra.Denied, palyra.ReasonStdinDenied,
				"%s takes instructions from its input, which cannot be approved before they come", quote(v.called)).
				WithRemedy("%s", liveRemedy(p.Terminal))
		}
	}
	for _, r := range found {
		f := scan(r, v.args)
		base := w.base(f)
		if err := w.inputs(r, f, base, p); err != nil {
			return err
		}
		err := w.wrapped(v, r, f, base, p)
		if e := (*palyra.Error)(nil); len(found) > 1 && errors.As(err, &e) && e.Reason == palyra.ReasonFileNotFound {
			note(p, "runs another program: %s (not bound, there is none)", show.Arg(palyra.Clip(f.wrapped, 200)))
			err = nil // under another of its names it may run no program
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wrapped follows a program that only runs another, or notes the other one's name where it cannot be followed.
func (w *world) wrapped(v invocation, r *programs.Binding, f findings, base string, p *palyra.Plan) error {
	if r.Follow { // whether or not it names a program
		for _, name := range f.env {
			if err := envAllowed(name); err != nil {
				return err
			}
		}
	}
	switch {
	case r.Wraps && r.Follow && f.unsure:
		note(p, "which program is run through %s is not bound: its options are not all understood",
			show.Arg(palyra.Clip(path.Base(v.called), 200)))
		return nil
	case f.wrapped == "":
		return nil
	case !r.Follow:
		note(p, "runs another program: %s (not bound)", show.Arg(palyra.Clip(f.wrapped, 200)))
		return nil
	case v.wraps == maxWraps:
		note(p, "runs another program: %s (not followed further)", show.Arg(palyra.Clip(f.wrapped, 200)))
		return nil
	}
	inner := *w
	inner.cwd = base
	if f.cleared {
		inner.lookup = unsetPath
	}
	next := invocation{program: v.program, called: f.wrapped, args: f.rest, script: v.script, wraps: v.wraps + 1}
	if !r.Applets {
		prog, err := inner.find(f.wrapped, p)
		if err != nil {
			return unreached(v, f.wrapped, err)
		}
		next.program = prog
		inner.bindProgram(prog, p)
		note(p, "runs another program: %s (bound)", show.Arg(palyra.Clip(f.wrapped, 200)))
	}
	return inner.invoke(next, p)
}

// unsetPath is the lookup path of execvp(3) in the GNU C library without PATH.
var unsetPath = []string{"/bin", "/usr/bin"}

// unreached is the error for a program, run by another one, that cannot be run: the rules for
// commands apply to it as well.
func unreached(v invocation, name string, err error) error {
	if v.script != "" {
		return unusable(v.script, name, err)
	}
	return err
}

// unusable is the error for an interpreter that cannot be used.
func unusable(script, name string, err error) error {
	if e := (*palyra.Error)(nil); !errors.As(err, &e) {
		return err
	}
	e := unrunnable(script, fmt.Sprintf("its interpreter %s: %s", quote(name), palyra.AsError(err).Text)).WithCause(err)
	if strings.HasSuffix(name, "\r") {
		return e.WithRemedy("write the file with plain line ends (LF, not CRLF)")
	}
	if errors.Is(err, errHidden) {
		return e.WithRemedy("%s", showIt)
	}
	return e.WithRemedy("install the interpreter or change the #! line")
}

// bindProgram binds a program that another one, or the kernel for a script, runs.
func (w *world) bindProgram(prog program, p *palyra.Plan) {
	if prog.real != p.Executable.Path {
		bind(p, palyra.Input{Path: relative(prog.real, w.workspace), Digest: prog.digest})
	}
	if prog.writable || prog.shaky {
		note(p, "the program %s is bound, but the workspace's owner could change it or the way to it", show.Line(prog.real))
	}
}
