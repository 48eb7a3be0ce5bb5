// Package trustedfiles tells which files, to be written by somebody else than a sandboxed
// run, are ones that other programs obey: not only those whose names say so, but
// also those that git's configuration and links in the place of such names lead to.
//
// Promises: what a seal would hold in a run is found, by the same look at the
// workspace. A workspace that cannot be looked through has nothing but such files.
// Where seals cannot be held at all, as on other systems than Linux, names alone
// count, and those are not this package's.
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

// TrustedFiles looks at workspaces. What it saw of the last few is kept, so that it reads
// only what changed since. The zero value is ready.
type TrustedFiles struct {
	mu    sync.Mutex // guards the list; never held across a look
	known []*look    // the last one used is the last
}

// look is what is known of a workspace.
type look struct {
	workspace string
	mu        sync.Mutex // held while it is looked at
	snap      *seal.Snapshot
}

// Guarded returns those of the paths, relative to a workspace, that are sealed
// there; why says, for people, that this could not be told and all of them are.
func (g *TrustedFiles) Guarded(ctx context.Context, workspace string, paths []string) (guarded []string, why string, err error) {
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
	for _, p := range paths {
		if l.snap.Seals(p) {
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

// at finds what is known of a workspace, and forgets what was not used for long.
func (g *TrustedFiles) at(workspace string) *look {
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

// again looks at the workspace. What is known of one that leads elsewhere now is
// looked at anew.
func (l *look) again(ctx context.Context) error {
	if l.snap != nil {
		if snap, err := seal.ScanAgain(ctx, l.snap); err == nil {
			l.snap = snap
			return nil
		}
	}
	snap, err := seal.Scan(ctx, l.workspace, seal.Default, seal.Limits{})
	l.snap = snap
	return err
}
