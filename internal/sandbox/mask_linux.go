package sandbox

import (
	"context"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/dotenv"
)

// mask has every file like .env that the run would find laid over by a copy.
func (l *runStart) mask(ctx context.Context) error {
	if !l.masked() {
		return nil
	}
	var size int64
	err := l.eachMasked(ctx, func(dir dotenv.SearchDir, pinned bool) error {
		found, err := l.Masks.Copies(ctx, dir, &size, l.stand())
		if err != nil {
			return unmaskable(err)
		}
		for _, f := range found {
			if !walled(l.backend) {
				if f.Same {
					continue
				}
				return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement,
					"tier %s cannot mask %s, which has secret values", l.plan.Tier, show(f.Path)).
					WithRemedy("call with tier c; " + dotenv.ShowValues)
			}
			c := Cover{Path: filepath.Join(dir.Path, f.Path)}
			if pinned {
				c.Below = dir.Path
			}
			if c.File, err = cell.SealedText("palyra-masked", f.Text); err != nil {
				return err
			}
			l.job.Covers = append(l.job.Covers, c)
			f.Text = nil
			l.masks = append(l.masks, f.Found)
		}
		return nil
	})
	if err == nil && walled(l.backend) {
		l.job.Before = l.stillMasked
	}
	return err
}

// stillMasked makes sure that what was masked is what is there, when nothing can be put between that and the program any more.
func (l *runStart) stillMasked(ctx context.Context) error {
	was := l.masks
	err := l.eachMasked(ctx, func(dir dotenv.SearchDir, _ bool) (err error) {
		was, err = l.Masks.Still(ctx, dir, was)
		return err
	})
	if err == nil && len(was) > 0 {
		err = dotenv.ErrMoved
	}
	if err != nil {
		return unmaskable(err)
	}
	return nil
}

// eachMasked calls do with the workspace, and with what a service may read of another one, with the rights of who runs. What
// leads to files in the workspace, which the run can write to, is pinned.
func (l *runStart) eachMasked(ctx context.Context, do func(dir dotenv.SearchDir, pinned bool) error) error {
	dirs := []string{l.plan.Workspace.Path}
	for _, m := range l.plan.Mounts {
		if l.serves && m.Source == m.Target && !m.Writable {
			dirs = append(dirs, m.Target)
		}
	}
	return runAs(l.who, func() error {
		for i, path := range dirs {
			dir, from, name := dotenv.SearchDir{Path: path, Place: path}, unix.AT_FDCWD, path
			if i == 0 && l.layer != nil { // what an agent's stage shows is nobody else's
				dir.Place, from, name = "", int(l.layer.Fd()), "."
			}
			var err error
			if dir.Top, err = unix.Openat(from, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return unmaskable(err)
			}
			err = do(dir, i == 0)
			_ = unix.Close(dir.Top)
			if err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}
