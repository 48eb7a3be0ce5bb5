package process

import (
	"errors"
	"path"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"palyra"
	programs "palyra/internal/program"
	"palyra/internal/show"
	"palyra/internal/subpath"
)

const maxMaybe = 16 // arguments that are bound when it is not certain which one is the script

// inputs binds the files that the command is known to interpret, relative to base.
func (w *world) inputs(r *programs.Binding, f findings, base string, p *palyra.Plan) error {
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
	if err := w.bindPossibleScripts(f, base, p); err != nil {
		return err
	}
	if f.defaults {
		return w.bindDefaultFiles(r, base, p)
	}
	return nil
}

// base is the directory that a command's files are relative to.
func (w *world) base(f findings) string {
	if f.dir == "" {
		return w.cwd
	}
	at, err := w.walk(w.abs(f.dir))
	if err != nil {
		return path.Clean(w.abs(f.dir))
	}
	defer at.close()
	return at.real
}

// bindPossibleScripts binds all arguments that are files of the workspace, where an unknown option
// leaves open which one is the script.
func (w *world) bindPossibleScripts(f findings, base string, p *palyra.Plan) error {
	names := f.maybe[:min(len(f.maybe), maxMaybe)]
	found := false
	for _, name := range names {
		is, err := w.regular(base, name)
		if err != nil || !is {
			continue
		}
		if _, err := w.input(base, name, p); err != nil {
			return err
		}
		found = true
	}
	switch {
	case len(f.maybe) > maxMaybe:
		note(p, "an option is not understood: of the arguments after it the first %d are bound that are files of the workspace, the "+
			"others are not", maxMaybe)
	case f.unsure || found:
		note(p, "an option is not understood: every argument after it that is a file of the workspace is bound")
	}
	return nil
}

// regular reports whether a name is that of a regular file in the workspace.
func (w *world) regular(base, name string) (bool, error) {
	if name == "" {
		return false, nil
	}
	if !path.IsAbs(name) {
		name = base + "/" + name
	}
	at, err := w.walk(name)
	if err != nil {
		return false, err
	}
	defer at.close()
	return at.st.Mode&unix.S_IFMT == unix.S_IFREG && subpath.Within(w.workspace, at.real), nil
}

// state is what an input was found to be.
type state int

const (
	missing state = iota
	bound
	directoryFound
	unbound // exists, but cannot be bound
)

// input binds a file, or that it is missing. A file that the run's user cannot reach counts as
// missing, because it does for the program.
func (w *world) input(base, name string, p *palyra.Plan) (state, error) {
	abs := name
	if !path.IsAbs(name) {
		abs = base + "/" + name
	}
	at, err := w.walk(abs)
	switch {
	case errors.Is(err, errShifting), errors.Is(err, errSelected):
		note(p, "%s is not bound: it stands for something else in every process", show.Line(palyra.Clip(abs, 200)))
		return unbound, nil
	case errors.Is(err, errGenerated): // the plan has its text
		return bound, nil
	case errors.Is(err, errHidden):
		note(p, "%s is not there for the program: the sandbox does not show it", show.Line(palyra.Clip(abs, 200)))
	}
	if err != nil {
		return missing, w.bindMissing(abs, err, p)
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
	if at.real == p.Executable.Path { // bound already
		return bound, nil
	}
	if !utf8.ValidString(at.real) || slices.ContainsFunc(at.links, func(l palyra.Link) bool { return !utf8.ValidString(l.Path + l.Target) }) {
		return missing, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput,
			"%s leads to a name that is not text in UTF-8, and cannot be bound", show.Line(palyra.Clip(abs, 200))).
			WithRemedy("rename the file that it leads to, and the link to it")
	}
	c, err := w.read(at, min(maxScript, w.maxExe))
	if err != nil {
		return missing, w.bindMissing(abs, err, p)
	}
	bind(p, palyra.Input{Path: relative(at.real, w.workspace), Digest: c.digest})
	for _, link := range at.links {
		if !slices.Contains(p.Links, link) {
			p.Links = append(p.Links, link)
		}
	}
	return bound, nil
}

// bindMissing binds a file as missing if the error means that.
func (w *world) bindMissing(abs string, err error, p *palyra.Plan) error {
	for _, gone := range []error{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG, errHidden} {
		if errors.Is(err, gone) {
			bind(p, palyra.Input{Path: relative(path.Clean(abs), w.workspace)})
			return nil
		}
	}
	return fail("read", abs, err)
}

// operand binds the script operand, or the file that stands for it.
func (w *world) operand(r *programs.Binding, base, name string, p *palyra.Plan) error {
	s, err := w.input(base, name, p)
	if err != nil {
		return err
	}
	if s == directoryFound {
		for _, in := range r.Within {
			if _, err := w.input(base, name+"/"+in, p); err != nil {
				return err
			}
		}
		if len(r.Within) == 0 {
			note(p, "%s is a directory and is not bound", show.Line(palyra.Clip(name, 200)))
		}
	}
	for _, ending := range r.Tries {
		if s == bound || s == unbound {
			break
		}
		if s, err = w.input(base, name+ending, p); err != nil {
			return err
		}
	}
	return nil
}

// bindDefaultFiles binds the files that a program looks for by itself: the first existing one, and
// those before it as missing.
func (w *world) bindDefaultFiles(r *programs.Binding, base string, p *palyra.Plan) error {
	for dir := base; ; dir = path.Dir(dir) {
		for _, name := range r.Defaults {
			if s, err := w.input(dir, name, p); err != nil || s == bound || s == unbound {
				return err
			}
		}
		if !r.Up || !subpath.Within(w.workspace, path.Dir(dir)) || dir == "/" {
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
