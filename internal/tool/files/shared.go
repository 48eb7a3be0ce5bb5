//go:build unix

package files

import (
	"context"
	"path"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/tool"
)

// All returns the package's tools.
func All(c Config) []tool.Tool {
	s := &shared{cfg: c.withDefaults()}
	return []tool.Tool{reader{s}, lister{s}, searcher{s}, writer{s}, editor{s}, patcher{s}}
}

// shared holds what the tools have in common.
type shared struct {
	cfg  Config
	turn turns
	disk disk
	at   func(step string) // called by tests between steps; otherwise nil
}

func (s *shared) reached(step string) {
	if s.at != nil {
		s.at(step)
	}
}

// inWorkspace opens the workspace with its owner's permissions and calls f.
func (s *shared) inWorkspace(ctx context.Context, ref palyra.WorkspaceRef, f func(*root) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !path.IsAbs(ref.Path) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonWorkspaceDenied, "the call has no workspace").
			WithRemedy("name one: --workspace DIR")
	}
	return asOwner(ctx, ref, func() error {
		r, err := openRoot(ctx, ref, s.cfg)
		if err != nil {
			return err
		}
		defer r.close()
		return f(r)
	})
}

// Target finds the file of a workspace that a write to a path would replace, as the owner sees it:
// relative to the workspace, through no link, and a regular file if it exists.
func Target(ctx context.Context, ref palyra.WorkspaceRef, asked string) (rel string, err error) {
	if rel, err = cleanTarget(asked, ref.Path); err != nil {
		return "", err
	}
	s := &shared{cfg: Config{}.withDefaults()}
	err = s.inWorkspace(ctx, ref, func(r *root) error {
		dir, _, missing, err := r.nearest(path.Dir(rel))
		if err != nil {
			return fail("open", rel, err)
		}
		defer func() { _ = unix.Close(dir) }()
		var st unix.Stat_t
		if missing != "" || unix.Fstatat(dir, path.Base(rel), &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
			return nil
		}
		return kind(rel, &st)
	})
	return rel, err
}

// Mechanisms implements tool.Confined.
func (s *shared) Mechanisms(p palyra.Plan) []string {
	return append([]string{confinement()}, ownerMechanisms(p.Workspace)...)
}

// planRead cleans the path, follows its links and binds both to the plan. The
// last of Reads is the real path, which Run opens. shows refuses what the agent's own tool must not read there; nil: it may.
func (s *shared) planRead(
	ctx context.Context, env tool.Env, p *palyra.Plan, asked string, shows func(r *root, real string) error,
) (rel string, err error) {
	rel, err = clean(asked, p.Workspace.Path, env.Asked)
	if err != nil {
		return "", err
	}
	err = s.inWorkspace(ctx, p.Workspace, func(r *root) error {
		real, err := r.follow(rel)
		if err != nil {
			return err
		}
		p.Reads = []string{textOf(rel)}
		if real != rel {
			p.Reads = append(p.Reads, textOf(real))
			p.Detail.Notes = append(p.Detail.Notes, quoteUnlessPlain(rel)+" is reached through a link and stands for "+quoteUnlessPlain(real))
		}
		if env.Check && shows != nil {
			return shows(r, real)
		}
		return nil
	})
	return rel, err
}

// planned returns the real path that a read was planned for.
func planned(p palyra.Plan) (string, error) {
	if len(p.Reads) == 0 {
		return "", palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the plan of %s names no path", p.Tool)
	}
	return palyra.PathText(p.Reads[len(p.Reads)-1]).Asked(), nil
}
