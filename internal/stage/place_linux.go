package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/subpath"
)

// placed is a bound file as it lies in the stage, and what it was copied from.
type placed struct {
	Bound
	copy   beneath.Mark
	source beneath.Mark // none: there was nothing
}

// Place puts copies of bound files into the stage, before it is mounted. A file
// that is not what was checked is a ChangedError.
func (g *Stage) Place(ctx context.Context, bound []Bound) error {
	if len(bound) == 0 {
		return nil
	}
	err := g.inBoth(func(ws, upper int) error {
		for _, b := range bound {
			if _, twice := g.placed[b.Path]; twice {
				continue
			}
			p := placer{g, ws, upper}
			if err := p.place(ctx, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stage: place: %w", err)
	}
	return nil
}

// openWorkspace opens the workspace, which must be the directory that the stage was made for.
func (g *Stage) openWorkspace() (int, error) {
	ws, err := beneath.OpenTree(g.workspace)
	if err != nil {
		return -1, errors.Join(errGone, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(ws, &st); err != nil || beneath.IdentOf(&st) != g.root {
		return -1, errors.Join(errGone, err, unix.Close(ws))
	}
	return ws, nil
}

// open opens a directory of the stage.
func (g *Stage) open(sub string) (int, error) {
	dir, name := int(g.of.dir.Fd()), g.name
	if g.archived {
		dir, name = g.past.Dir(), g.as
	}
	return beneath.OpenAt2(dir, name+"/"+sub, unix.O_PATH|unix.O_DIRECTORY, beneath.Resolve)
}

type placer struct {
	*Stage
	ws, upper int
}

func (p *placer) place(ctx context.Context, b Bound) error {
	if b.Path == "" || b.Path != path.Clean(b.Path) || !subpath.Within(".", b.Path) || len(b.Path) > mostPath {
		return fmt.Errorf("%q is no path below a workspace", b.Path)
	}
	at, missing, err := p.way(path.Dir(b.Path))
	if err != nil {
		return &ChangedError{b.Path, err}
	}
	none := b.Digest == "" && b.Link == ""
	switch {
	case missing && none:
		return p.absent(at, b)
	case missing:
		return &ChangedError{b.Path, unix.ENOENT}
	case none:
		return p.absent(b.Path, b)
	case b.Link != "":
		return p.link(b)
	}
	return p.file(ctx, b)
}

// way makes the directories to a bound file, as those of the workspace are. Missing:
// there is none at the path that it returns.
func (p *placer) way(dir string) (at string, missing bool, err error) {
	if dir == "." {
		return "", false, nil
	}
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		at = dir[:i]
		if _, made := p.parents[at]; made {
			continue
		}
		fd, err := beneath.OpenIn(p.ws, at, unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) {
			return at, true, nil
		}
		if err != nil {
			return "", false, err
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd)
		if err != nil {
			return "", false, err
		}
		mode := st.Mode&modeBits | 0o700
		if err := beneath.InParent(p.upper, at, func(up int, name string) error {
			return errors.Join(unix.Mkdirat(up, name, 0o700), beneath.ChmodAt(up, name, mode),
				unix.UtimesNanoAt(up, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
		}); err != nil {
			return "", false, err
		}
		p.parents[at] = mode
	}
	return "", false, nil
}

// absent makes sure that the run finds nothing at a path, whoever makes something there meanwhile.
func (p *placer) absent(at string, b Bound) error {
	err := beneath.InParent(p.ws, at, func(dir int, name string) error {
		var st unix.Stat_t
		return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	switch {
	case err == nil && at == b.Path && p.unusable(b.Path):
		return nil // it is there, and of no use to the run: so it was found before
	case !errors.Is(err, unix.ENOENT):
		return &ChangedError{b.Path, err}
	}
	if _, there := p.placed[at]; there {
		return nil
	}
	if err := beneath.InParent(p.upper, at, func(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) }); err != nil {
		return err
	}
	p.placed[at] = placed{Bound: Bound{Path: at}}
	return nil
}

// unusable reports whether something is there that the run could not open.
func (p *placer) unusable(rel string) bool {
	fd, err := beneath.OpenIn(p.ws, rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return errors.Is(err, unix.EACCES)
}

// link puts a symbolic link into the stage.
func (p *placer) link(b Bound) error {
	var source unix.Stat_t
	err := beneath.InParent(p.ws, b.Path, func(dir int, name string) error {
		if err := unix.Fstatat(dir, name, &source, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buf)
		if err == nil && string(buf[:n]) != b.Link {
			err = unix.ESTALE
		}
		return err
	})
	if err != nil {
		return &ChangedError{b.Path, err}
	}
	return beneath.InParent(p.upper, b.Path, func(dir int, name string) error {
		if err := unix.Symlinkat(b.Link, dir, name); err != nil {
			return err
		}
		return p.note(dir, name, b, &source)
	})
}

// note remembers a copy.
func (p *placer) note(dir int, name string, b Bound, source *unix.Stat_t) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	p.placed[b.Path] = placed{b, beneath.MarkOf(&st), beneath.MarkOf(source)}
	return nil
}

// file copies a regular file into the stage.
func (p *placer) file(ctx context.Context, b Bound) error {
	f, source, err := beneath.OpenRegular(p.ws, b.Path)
	if err != nil {
		return &ChangedError{b.Path, err}
	}
	defer func() { _ = f.Close() }()
	return beneath.InParent(p.upper, b.Path, func(dir int, name string) error {
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		to := os.NewFile(uintptr(fd), name)
		digest, err := copySum(ctx, to, f)
		if err == nil && digest != b.Digest {
			err = &ChangedError{b.Path, nil}
		}
		if err == nil {
			err = errors.Join(unix.Fchmod(fd, source.Mode&0o777), beneath.Futimes(fd, source))
		}
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
		if source.Mode&0o111 != 0 {
			if err := beneath.LetGo(ctx, dir, name); err != nil {
				return err
			}
		}
		return p.note(dir, name, b, source)
	})
}

// copySum copies, and returns the digest of what it copied.
func copySum(ctx context.Context, to io.Writer, from io.Reader) (string, error) {
	h := sha256.New()
	buf := make([]byte, 128<<10)
	for size := int64(0); ; {
		n, err := from.Read(buf)
		h.Write(buf[:n])
		if size += int64(n); size > mostBound {
			return "", tooMany("a bound file of over %d bytes", int64(mostBound))
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return "", err
		}
		switch {
		case errors.Is(err, io.EOF):
			return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
	}
}

// Fresh reports whether the workspace is still there, and has what the copies were made from.
func (g *Stage) Fresh() bool {
	if g.beside != nil && !g.beside.Fresh() {
		return false
	}
	if len(g.placed) == 0 {
		var st unix.Stat_t
		return unix.Lstat(g.workspace, &st) == nil && beneath.IdentOf(&st) == g.root
	}
	fresh := true
	err := g.asOwner(func() error {
		ws, err := g.openWorkspace()
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(ws) }()
		for rel, p := range g.placed {
			now, there := lookIn(ws, rel)
			if there != (p.source != beneath.Mark{}) || now != p.source {
				fresh = false
			}
		}
		return nil
	})
	return err == nil && fresh
}

// swapped lists the bound files that others changed in the workspace.
func (g *Stage) swapped(ws int) (changed []string) {
	for rel, p := range g.placed {
		now, there := lookIn(ws, rel)
		if there != (p.source != beneath.Mark{}) || now != p.source && !g.sameContent(ws, p) {
			changed = append(changed, rel)
		}
	}
	slices.Sort(changed)
	return changed
}

// sameContent reports whether a file that is another one has the content that was checked.
func (g *Stage) sameContent(ws int, p placed) bool {
	if p.Digest == "" {
		return false
	}
	f, _, err := beneath.OpenRegular(ws, p.Path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	digest, err := copySum(context.Background(), io.Discard, f)
	return err == nil && digest == p.Digest
}

// lookIn looks at a path below a directory.
func lookIn(top int, rel string) (beneath.Mark, bool) {
	var st unix.Stat_t
	err := beneath.InParent(top, rel, func(dir int, name string) error {
		return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return beneath.Mark{}, false
	}
	return beneath.MarkOf(&st), true
}
