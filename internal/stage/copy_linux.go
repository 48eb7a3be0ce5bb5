package stage

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra/internal/change"
	"palyra/internal/stage/dircopy"
)

// CopyDirs puts whole copies of directories into the stage, before it is mounted: an overlay cannot rename a
// directory that lies in the workspace, and can one that lies on the stage. What is no directory, is too large, or
// has something in it that cannot be copied or that names says must stay, is passed over.
func (g *Stage) CopyDirs(ctx context.Context, dirs []string, names Names) error {
	if len(dirs) == 0 {
		return nil
	}
	err := g.inBoth(func(ws, upper int) error {
		p := placer{g, ws, upper}
		c := dircopy.Copier{Workspace: ws, Upper: upper, UID: g.id.UID, Stays: names, Mark: xattrWhole, Modes: modeBits}
		c.Way = func(dir string) (bool, error) {
			_, missing, err := p.way(dir)
			return missing, err
		}
		for _, dir := range dirs {
			if err := c.Whole(ctx, dir); err != nil {
				return fmt.Errorf("%s: %w", change.Quoted(dir), err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stage: copy: %w", err)
	}
	return nil
}

// inBoth calls f as the owner with the workspace and the upper layer.
func (g *Stage) inBoth(f func(ws, upper int) error) error {
	return g.asOwner(func() error {
		ws, err := g.openWorkspace()
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(ws) }()
		upper, err := g.open(Upper)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(upper) }()
		return f(ws, upper)
	})
}
