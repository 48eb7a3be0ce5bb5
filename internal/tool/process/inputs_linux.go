package process

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/show"
)

// inputs binds the files that the command is known to interpret.
func (w *world) inputs(r rule, p *palyra.Plan) error {
	f := r.scan(p.Argv[1:])
	base := w.cwd
	if f.dir != "" {
		base = path.Clean(w.abs(f.dir))
		if at, err := w.walk(w.abs(f.dir)); err == nil {
			base = at.real
			at.close()
		}
	}
	if f.wrapped != "" {
		note(p, "runs another program: %s (not bound)", show.Arg(palyra.Clip(f.wrapped, 200)))
	}
	for _, name := range f.files {
		if _, err := w.input(base, name, p); err != nil {
			return err
		}
	}
	if f.operand != "" {
		if err := w.operand(r, base, f.operand, p); err != nil {
			return err
		}
	}
	if f.defaults {
		return w.usual(r, base, p)
	}
	return nil
}

// state is what an input turned out to be.
type state int

const (
	missing state = iota
	bound
	directoryFound
	unbound // there, and nothing that can be bound
)

// input binds a file, or that it is missing: also when the run's user may not
// reach it, which comes to the same for the program.
func (w *world) input(base, name string, p *palyra.Plan) (state, error) {
	abs := name
	if !path.IsAbs(name) {
		abs = base + "/" + name
	}
	at, err := w.walk(abs)
	if errors.Is(err, errShifting) {
		note(p, "%s is not bound: it stands for something else in every process", show.Line(palyra.Clip(abs, 200)))
		return unbound, nil
	}
	if err != nil {
		return missing, w.lost(abs, err, p)
	}
	defer at.close()
	switch at.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return directoryFound, nil
	default:
		note(p, "%s is not a regular file and is not bound", show.Line(at.real))
		return unbound, nil
	}
	c, err := w.read(at, min(maxScript, w.maxExe))
	if err != nil {
		return missing, w.lost(abs, err, p)
	}
	if at.real != p.Executable.Path {
		bind(p, palyra.Input{Path: relative(at.real, w.workspace), Digest: c.digest})
	}
	return bound, nil
}

// lost binds a file as missing when that is what the error comes to.
func (w *world) lost(abs string, err error, p *palyra.Plan) error {
	for _, none := range []error{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG} {
		if errors.Is(err, none) {
			bind(p, palyra.Input{Path: relative(path.Clean(abs), w.workspace)})
			return nil
		}
	}
	return fail("read", abs, err)
}

// operand binds the script operand, or what stands for it.
func (w *world) operand(r rule, base, name string, p *palyra.Plan) error {
	s, err := w.input(base, name, p)
	if err != nil {
		return err
	}
	if s == directoryFound {
		for _, in := range r.within {
			if _, err := w.input(base, name+"/"+in, p); err != nil {
				return err
			}
		}
		if len(r.within) == 0 {
			note(p, "%s is a directory and is not bound", show.Line(palyra.Clip(name, 200)))
		}
	}
	for _, ending := range r.tries {
		if s == bound || s == unbound {
			break
		}
		if s, err = w.input(base, name+ending, p); err != nil {
			return err
		}
	}
	return nil
}

// usual binds the files that a program looks for by itself: the first that
// exists, and those before it as missing.
func (w *world) usual(r rule, base string, p *palyra.Plan) error {
	for dir := base; ; dir = path.Dir(dir) {
		for _, name := range r.defaults {
			if s, err := w.input(dir, name, p); err != nil || s == bound || s == unbound {
				return err
			}
		}
		if !r.up || !within(path.Dir(dir), w.workspace) || dir == "/" {
			return nil
		}
	}
}

// bind adds an input once.
func bind(p *palyra.Plan, in palyra.Input) {
	for _, has := range p.Inputs {
		if has == in {
			return
		}
	}
	p.Inputs = append(p.Inputs, in)
}
