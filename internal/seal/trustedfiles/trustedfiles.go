// Package trustedfiles tells which of the files that are to be written other than by a sandboxed
// run are ones that other programs obey: not only those whose names say so, but also those that
// git's configuration and links in the place of such names lead to.
//
// Promises: it finds every file that a seal would protect in a run, by the same look at the workspace. In a
// workspace that cannot be looked through, every file counts as one. Where seals cannot be enforced at all, as on
// other systems than Linux, names alone count, and this package does not check those.
package trustedfiles

import (
	"context"
	"errors"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/seal"
)

// maxKept bounds how many workspaces are remembered.
const maxKept = 8

// TrustedFiles looks at workspaces. It remembers the last few, so that it reads only what changed
// since. The zero value is ready.
type TrustedFiles struct {
	mu    sync.Mutex // guards the list; never held across a look
	known []*look    // the last one used is the last
}

// look is the known state of a workspace.
type look struct {
	workspace palyra.WorkspaceRef
	mu        sync.Mutex // held during a look
	snap      *seal.Snapshot
}

// Guarded returns those of the paths, relative to a workspace, that are sealed there; of the workspace, its path and the
// repository count whose work tree it is. why says, for
// people, that this could not be found out, so that all of them count.
func (g *TrustedFiles) Guarded(
	ctx context.Context, workspace palyra.WorkspaceRef, paths []string,
) (guarded []string, why string, err error) {
	l := g.at(workspace)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch err := l.again(ctx); {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case reason(err) == palyra.ReasonUnsupported:
		return nil, "", nil
	case err != nil:
		return paths, palyra.AsError(err).Text, nil
	}
	seals := l.snap.Seals()
	for _, p := range paths {
		if seals(p) {
			guarded = append(guarded, p)
		}
	}
	return guarded, "", nil
}

func reason(err error) palyra.Reason {
	if e := (*palyra.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// at finds the look of a workspace, and forgets the least recently used one.
func (g *TrustedFiles) at(workspace palyra.WorkspaceRef) *look {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.known, func(l *look) bool { return l.workspace == workspace })
	l := &look{workspace: workspace}
	if i >= 0 {
		l = g.known[i]
		g.known = slices.Delete(g.known, i, i+1)
	}
	g.known = append(g.known, l)
	if len(g.known) > maxKept {
		g.known = slices.Delete(g.known, 0, 1)
	}
	return l
}

// again looks at the workspace. Where the anchors changed it starts anew.
func (l *look) again(ctx context.Context) error {
	if l.snap != nil {
		if snap, err := seal.ScanAgain(ctx, l.snap); err == nil {
			l.snap = snap
			return nil
		}
	}
	snap, err := seal.Scan(ctx, l.workspace.Path, seal.Default, seal.Limits{Repository: l.workspace.Repository})
	l.snap = snap
	return err
}
