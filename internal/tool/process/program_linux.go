package process

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/show"
)

// program is a file that can be executed.
type program struct {
	content
	real     string
	names    []string // names it was found by: those of links, and its own
	known    []string // further names of interpreters that are the very same file
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
	for _, dir := range w.lookup {
		prog, err := w.program(path.Join(dir, command), command, p)
		if err == nil || w.ctx.Err() != nil {
			return prog, err
		}
		switch palyra.AsError(err).Reason {
		case palyra.ReasonFileNotFound, palyra.ReasonPathInvalid:
		default: // exists, but cannot be used: a later one may do, else this is the reason
			if refused == nil {
				refused = err
			}
		}
	}
	if refused != nil {
		return program{}, refused
	}
	e := palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "there is no program %s in %s", quote(command), strings.Join(w.lookup, ":"))
	if here, err := w.walk(w.abs(command)); err == nil {
		here.close()
		return program{}, e.WithRemedy("for the file in the working directory say ./%s", command)
	}
	if strings.ContainsAny(command, " |&;<>$`*") {
		return program{}, e.WithRemedy("give words one by one; a line for a shell is a command of its own: sh -c and the line in quotes")
	}
	if w.view != nil {
		return program{}, e.WithRemedy("install it, give the path of a program, or let 'palyra setup' mount the toolchains of your home")
	}
	return program{}, e.WithRemedy("install it, or give the path of a program")
}

// abs makes a path absolute without cleaning it: ".." after a link leads to another directory than
// the text shows.
func (w *world) abs(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return w.cwd + "/" + p
}

// program checks one file: it must be a regular one that the run's user may execute and that can be bound.
func (w *world) program(abs, asked string, p *palyra.Plan) (program, error) {
	at, err := w.walk(abs)
	if err != nil {
		return program{}, fail("pass on the way to", asked, err)
	}
	defer at.close()
	switch {
	case at.st.Mode&unix.S_IFMT != unix.S_IFREG:
		return program{}, irregular(asked)
	case !w.user.permitted(mayExecute, &at.st):
		return program{}, unrunnable(asked, "it is not executable for the workspace's owner").
			WithRemedy("chmod +x it, or give it as an argument to its interpreter")
	case w.mountedNoexec(at):
		return program{}, unrunnable(asked, "its file system is mounted noexec").
			WithRemedy("give it as an argument to its interpreter, or move it")
	}
	c, err := w.read(at, w.maxExe)
	if err != nil {
		return program{}, fail("read", asked, err)
	}
	privileged(at, p)
	return program{content: c, real: at.real, names: at.names, known: w.aliases(&at.st), writable: at.writable, shaky: at.shaky}, nil
}

func (w *world) mountedNoexec(at *place) bool {
	var fs unix.Statfs_t
	err := unix.Fstatfs(at.open[len(at.open)-1].fd, &fs)
	w.print.Mount(at.host, &fs, err)
	return err == nil && fs.Flags&unix.ST_NOEXEC != 0
}

// privileged notes set-id bits and file capabilities. They are harmless: with
// no_new_privs the kernel ignores them.
func privileged(at *place, p *palyra.Plan) {
	_, err := unix.Lgetxattr(at.host, "security.capability", nil)
	if at.st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || err == nil {
		note(p, "%s has privileges of its own (set-id bits or file capabilities), which it does not get in the sandbox", show.Line(at.real))
	}
}
