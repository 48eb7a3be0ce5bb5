package workspace

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"

	"palyra"
	"palyra/internal/gitlink"
	"palyra/internal/owner"
	"palyra/internal/store"
)

// repository is what a directory is a work tree of, where that lies outside. What its .git says is believed only where
// the repository says the same, and only of one that could be worked in.
func (r *Registry) repository(dir string, uid int64) (palyra.Repository, error) {
	if runtime.GOOS != "linux" { // no room elsewhere shows one
		return palyra.Repository{}, nil
	}
	link, found, err := findLink(dir, uid)
	if why := (*gitlink.Error)(nil); errors.As(err, &why) {
		return palyra.Repository{}, denied("%s cannot be registered: %s", show(dir), why.Why).WithRemedy("%s", why.Remedy)
	}
	if errors.Is(err, fs.ErrPermission) { // its owner cannot work there either
		return palyra.Repository{}, nil
	}
	if err != nil || !found {
		return palyra.Repository{}, err
	}
	look := newGlance()
	if err := r.refuse(look, link.Path, uid); err != nil {
		return palyra.Repository{}, denied("%s cannot be registered: its repository lies where no work is done: %s", show(dir),
			palyra.AsError(err).Text).
			WithRemedy("have the repository in a project directory, and make the work tree anew with 'git worktree add'")
	}
	return palyra.Repository{Path: link.Path, Dir: link.Dir, Ino: int64(link.Ino)}, nil
}

// known is the repository that was registered with a workspace, where the workspace still leads there and it is the
// same. Anything else is none: whoever runs git there is told that it finds no repository, and what to do.
func (r *Registry) known(w palyra.Workspace) palyra.Repository {
	if w.Repository == (palyra.Repository{}) {
		return palyra.Repository{}
	}
	if now, err := r.repository(w.Path, w.Owner); err != nil || now != w.Repository {
		return palyra.Repository{}
	}
	return w.Repository
}

// findLink looks with the rights of the directory's owner, where the daemon is root.
func findLink(dir string, uid int64) (link gitlink.Link, found bool, err error) {
	if os.Geteuid() != 0 || uid == 0 {
		return gitlink.Find(dir, uid)
	}
	gid, err := groupOf(dir)
	if err != nil {
		return link, false, err
	}
	err = owner.Do(owner.Identity{UID: uid, GID: gid}, func() (err error) {
		link, found, err = gitlink.Find(dir, uid)
		return err
	})
	return link, found, err
}

// replaces makes room for a workspace that is registered already, where its repository is another now: an operator says
// so by registering it once more.
func (r *Registry) replaces(tx *store.Tx, w palyra.Workspace) error {
	was, err := scanned(func(dest ...any) error {
		return tx.Get(`SELECT `+columns+` FROM workspaces WHERE path = ?`, []any{w.Path}, dest...)
	})
	switch {
	case errors.Is(err, store.ErrNoRows):
		return nil
	case err != nil:
		return err
	case was.Repository == w.Repository:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "%s is registered already", show(w.Path))
	}
	_, err = tx.Exec(`DELETE FROM workspaces WHERE path = ?`, w.Path)
	return err
}

// repositoryText is a repository as a column has it.
func repositoryText(p palyra.Repository) (string, error) {
	if p == (palyra.Repository{}) {
		return "", nil
	}
	text, err := json.Marshal(p)
	return string(text), err
}
