package process

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/show"
)

const maxChain = 4 // interpreters that lead to one another by "#!" lines

// program is a file that can be executed.
type program struct {
	content
	real     string
	writable bool
	shaky    bool // reached through a link that the run's user could change
}

// find resolves a command as the kernel and execvp would: with a slash it is a
// path, else a name on the fixed lookup path.
func (w *world) find(command string, p *palyra.Plan) (program, error) {
	if strings.Contains(command, "/") {
		return w.program(w.abs(command), command, p)
	}
	var refused error
	for _, dir := range w.Path {
		prog, err := w.program(path.Join(dir, command), command, p)
		if err == nil || w.ctx.Err() != nil {
			return prog, err
		}
		switch palyra.AsError(err).Reason {
		case palyra.ReasonFileNotFound, palyra.ReasonPathInvalid:
		default: // there, but of no use: a later one may do, else this is why
			if refused == nil {
				refused = err
			}
		}
	}
	if refused != nil {
		return program{}, refused
	}
	e := palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "there is no program %s in %s", quote(command), strings.Join(w.Path, ":"))
	if here, err := w.walk(w.abs(command)); err == nil {
		here.close()
		return program{}, e.WithRemedy("for the file in the working directory say ./%s", command)
	}
	return program{}, e.WithRemedy("install it, or give the path of a program")
}

// abs makes a path absolute without cleaning it: ".." after a link is not the
// directory that the text shows.
func (w *world) abs(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return w.cwd + "/" + p
}

// program looks at one file: it must be a regular one that the run's user may
// execute and that can be bound.
func (w *world) program(abs, asked string, p *palyra.Plan) (program, error) {
	at, err := w.walk(abs)
	if err != nil {
		return program{}, fail("pass on the way to", asked, err)
	}
	defer at.close()
	switch {
	case at.st.Mode&unix.S_IFMT != unix.S_IFREG:
		return program{}, irregular(asked)
	case !w.user.may(mayExecute, &at.st):
		return program{}, unrunnable(asked, "it is not executable for the workspace's owner").
			WithRemedy("chmod +x it, or give it as an argument to its interpreter")
	case mountedNoexec(at):
		return program{}, unrunnable(asked, "its file system is mounted noexec").
			WithRemedy("give it as an argument to its interpreter, or move it")
	}
	c, err := w.read(at, w.maxExe)
	if err != nil {
		return program{}, fail("read", asked, err)
	}
	privileged(at, p)
	return program{content: c, real: at.real, writable: at.writable, shaky: at.shaky}, nil
}

func mountedNoexec(at *place) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(at.open[len(at.open)-1].fd, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}

// privileged notes set-id bits and file capabilities. They are harmless: with
// no_new_privs the kernel ignores them.
func privileged(at *place, p *palyra.Plan) {
	_, err := unix.Lgetxattr(at.real, "security.capability", nil)
	if at.st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || err == nil {
		note(p, "%s has privileges of its own (set-id bits or file capabilities), which it does not get in the sandbox", show.Line(at.real))
	}
}

// chain follows "#!" lines from a program to the native one that runs in the end
// and binds every interpreter on the way.
func (w *world) chain(prog program, p *palyra.Plan) error {
	for depth := 0; ; depth++ {
		in, found, ok := shebang([]byte(prog.head))
		switch {
		case !found && elf([]byte(prog.head)):
			return nil
		case !found:
			return unrunnable(prog.real, "it is neither a native program nor a script with a #! line").
				WithRemedy("name its interpreter as command and the file as an argument, or begin it with #!/bin/sh")
		case !ok:
			return unrunnable(prog.real, "its #! line names no interpreter, or one that is too long")
		case depth == maxChain:
			return unrunnable(prog.real, fmt.Sprintf("more than %d interpreters lead to one another", maxChain))
		}
		next, err := w.interpreter(prog.real, in, p)
		if err != nil || next == nil {
			return err
		}
		prog = *next
	}
}

// interpreter finds and binds what a "#!" line names. Through env it is the
// program that env runs. Nil: what comes next cannot be said.
func (w *world) interpreter(script string, in interpreter, p *palyra.Plan) (*program, error) {
	prog, err := w.program(w.abs(in.path), in.path, p) // never looked up: the kernel takes a bare name for one in cwd
	if err != nil {
		return nil, unusable(script, in.path, err)
	}
	w.bindProgram(prog, p)
	if path.Base(in.path) != "env" && path.Base(prog.real) != "env" {
		return &prog, nil
	}
	name, ok := envOperand(in.arg)
	if !ok {
		note(p, "which program the #! line of %s runs through env is not bound", show.Line(script))
		return nil, nil
	}
	if prog, err = w.find(name, p); err != nil {
		return nil, unusable(script, name, err)
	}
	w.bindProgram(prog, p)
	return &prog, nil
}

// unusable says that an interpreter cannot be used, and why.
func unusable(script, name string, err error) error {
	if e := (*palyra.Error)(nil); !errors.As(err, &e) {
		return err
	}
	e := unrunnable(script, fmt.Sprintf("its interpreter %s: %s", quote(name), palyra.AsError(err).Text)).WithCause(err)
	if strings.HasSuffix(name, "\r") {
		return e.WithRemedy("write the file with plain line ends (LF, not CRLF)")
	}
	return e.WithRemedy("install the interpreter or change the #! line")
}

func (w *world) bindProgram(prog program, p *palyra.Plan) {
	bind(p, palyra.Input{Path: relative(prog.real, w.workspace), Digest: prog.digest})
	if prog.writable || prog.shaky {
		note(p, "the interpreter %s is bound, but the workspace's owner could change it or the way to it", show.Line(prog.real))
	}
}
