//go:build unix

package files

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/memory"
	"palyra/internal/tool"
	"palyra/internal/tool/files/unified"
)

// The memory that each kind of work takes. A change has the file before, after and once more while
// it is made; a patch also has its lines, at most maxPatchLines.
const (
	copiesOfFile = 3
	bytesOfLine  = 24
	bytesOfNames = 16 << 20 // of the directories on the walk's present path
)

// take waits until the caller may hold n bytes.
func (s *shared) take(ctx context.Context, env tool.Env, n int64) (release func(), err error) {
	release, err = s.cfg.Memory.Take(ctx, string(env.Principal), n)
	switch {
	case errors.Is(err, memory.ErrTooLarge):
		return nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "the call would have to hold %d MiB at once", n>>20).
			WithRemedy("change fewer or smaller files at once")
	case errors.Is(err, memory.ErrBusy):
		return nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonBusy, "other calls on files hold the memory that there is for them").
			WithRemedy("wait for calls that are under way, and propose it again")
	}
	return release, err
}

// changing calls f in the workspace while it holds the memory for a change of the files. If they
// grow meanwhile, the additional bytes are not read.
func (s *shared) changing(ctx context.Context, env tool.Env, p *palyra.Plan, names []string, f func(*root) error) error {
	var sizes int64
	err := s.inWorkspace(ctx, p.Workspace, func(r *root) error {
		for _, name := range names {
			if rel, err := cleanTarget(name, p.Workspace.Path, env.Asked); err == nil {
				sizes += r.size(rel)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	release, err := s.take(ctx, env, copiesOfFile*(sizes+unified.Growth+int64(len(p.Arguments)))+min(sizes, unified.MaxPatchLines)*bytesOfLine)
	if err != nil {
		return err
	}
	defer release()
	return s.inWorkspace(ctx, p.Workspace, func(r *root) error {
		r.left = sizes + unified.Growth
		return f(r)
	})
}

// size is the size of a file, 0 for anything else.
func (r *root) size(rel string) int64 {
	dir, _, missing, err := r.nearest(path.Dir(rel))
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(dir) }()
	var st unix.Stat_t
	if missing != "" || unix.Fstatat(dir, path.Base(rel), &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return min(st.Size, r.cfg.MaxFile)
}
