package process

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/fingerprint"
	"palyra/internal/subpath"
)

// resolve looks up the working directory, the program, its chain and its inputs in the file system.
// The workspace is the one on the agent's stage, where there is one.
func (d *Driver) resolve(ctx context.Context, asked string, a arguments, lookup []string, layer *os.File, p *palyra.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	user, err := runUser(p.Workspace)
	if err != nil {
		return err
	}
	key := ""
	if layer == nil { // what a stage shows is not asked for by path
		key = resolutionKey(user, asked, a, lookup, p)
	}
	if f, ok := d.resolved.get(key); ok && key != "" && f.print.Holds() {
		f.enter(p)
		return nil
	}
	began := d.now()
	w := d.world(ctx, user, p.Workspace.Path)
	w.layer, w.print = layer, new(fingerprint.Print)
	if err := w.resolve(asked, a, lookup, p); err != nil {
		return err
	}
	if key != "" && w.print.Settled(began) {
		d.resolved.put(key, resolutionOf(p, w.print))
	}
	return nil
}

// resolve does so by looking at everything.
func (w *world) resolve(asked string, a arguments, lookup []string, p *palyra.Plan) error {
	if err := w.enter(p.Workspace, asked, a.Cwd); err != nil {
		return err
	}
	p.Cwd = w.cwd
	if p.Tier == palyra.TierC {
		w.view = newView(*p)
	}
	w.lookup, w.dirs = lookup, w.hostDirs(lookup)
	command, args := a.command()
	prog, err := w.find(command, p)
	if err != nil {
		return err
	}
	p.Executable = palyra.Executable{Path: prog.real, Digest: prog.digest, Sealed: prog.writable}
	return w.invoke(invocation{program: prog, called: command, args: args}, p)
}

// world returns the file system as the user sees it, before the working directory is known.
func (d *Driver) world(ctx context.Context, user userRights, workspace string) *world {
	return &world{Driver: d, ctx: ctx, user: user, workspace: workspace, lookup: d.Path, dirs: d.Path, hashed: new(int64)}
}

// enter finds the working directory. Both it and the workspace must be where their paths say: a
// link in the workspace's own path was put there since.
func (w *world) enter(ref palyra.WorkspaceRef, asked, cwd string) error {
	top, err := w.walk(ref.Path)
	if err != nil {
		return fail("enter", ref.Path, err)
	}
	defer top.close()
	if top.real != ref.Path || os.Geteuid() == 0 && int64(top.st.Uid) != ref.Owner {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the workspace %s is not what it was", quote(ref.Path)).
			WithRemedy("check the directory and propose the call anew")
	}
	abs, err := directory(cwd, ref.Path, asked)
	if err != nil {
		return err
	}
	at, err := w.walk(abs)
	if err != nil {
		return fail("enter", abs, err)
	}
	defer at.close()
	switch {
	case at.st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fail("enter", abs, unix.ENOTDIR)
	case !subpath.Within(ref.Path, at.real):
		return outsideError(cwd)
	case !w.user.permitted(mayExecute, &at.st):
		return fail("enter", abs, unix.EACCES)
	}
	w.cwd = at.real
	return nil
}
