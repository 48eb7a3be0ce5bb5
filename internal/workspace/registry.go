package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"
	"unicode"

	"palyra"
	"palyra/internal/store"
)

const maxName = 128

// Add registers the directory under its real path. The rules for every
// workspace hold here too: a directory that is never one cannot be registered.
func (r *Registry) Add(ctx context.Context, path, name string, by palyra.Principal, sig palyra.Signature) (palyra.Workspace, error) {
	if err := checkName(name); err != nil {
		return palyra.Workspace{}, err
	}
	real, owner, err := r.locate(path)
	if err != nil {
		return palyra.Workspace{}, err
	}
	w := palyra.Workspace{Path: real, Name: name, Owner: owner, AddedBy: by, AddedAt: r.Now().UTC()}
	if w.Repository, err = r.repository(real, owner); err != nil {
		return palyra.Workspace{}, err
	}
	e := palyra.WorkspaceAdded{Workspace: w, Signature: sig}
	err = r.DB.Write(ctx, e.Kind(), func(tx *store.Tx) error {
		if err := r.replaces(tx, w); err != nil {
			return err
		}
		repository, err := repositoryText(w.Repository)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO workspaces (path, name, owner, added_by, added_at, repository) VALUES (?, ?, ?, ?, ?, ?)`,
			w.Path, w.Name, w.Owner, string(w.AddedBy), w.AddedAt.UnixNano(), repository); err != nil {
			return err
		}
		_, err = r.Journal.Append(tx, e)
		return err
	})
	r.tell(ctx) // after an error as well: of a write that was cut off nobody knows whether it was done
	if err != nil {
		return palyra.Workspace{}, fmt.Errorf("workspace: add: %w", err)
	}
	return w, nil
}

// Told tells, from now on, which workspaces are registered.
func (r *Registry) Told(ctx context.Context) {
	r.telling.Lock()
	r.told = r.Tell != nil
	r.telling.Unlock()
	r.tell(ctx)
}

// tell tells what is registered now, also when whoever changed it has left.
func (r *Registry) tell(ctx context.Context) {
	r.telling.Lock() // or an older list could be told after a newer one
	defer r.telling.Unlock()
	if !r.told {
		return
	}
	all, err := r.List(context.WithoutCancel(ctx))
	paths := make([]string, 0, len(all))
	for _, w := range all {
		paths = append(paths, w.Path)
	}
	r.Tell(paths, err == nil)
}

func checkName(name string) error {
	bad := len(name) > maxName
	for _, c := range name {
		bad = bad || !unicode.IsPrint(c)
	}
	if bad {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a workspace's name has at most %d bytes of printable text", maxName)
	}
	return nil
}

// Remove forgets a workspace: given by its registered path, also when the
// directory is gone, or by a path that leads there.
func (r *Registry) Remove(ctx context.Context, path string, by palyra.Principal, sig palyra.Signature) error {
	path = filepath.Clean(path)
	names := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		names = append(names, real)
	}
	err := r.DB.Write(ctx, palyra.WorkspaceRemoved{}.Kind(), func(tx *store.Tx) error {
		for _, name := range names {
			n, err := tx.Exec(`DELETE FROM workspaces WHERE path = ?`, name)
			if err != nil {
				return err
			}
			if n > 0 {
				_, err = r.Journal.Append(tx, palyra.WorkspaceRemoved{Path: name, By: by, Signature: sig})
				return err
			}
		}
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "%s is not a registered workspace", show(path)).
			WithRemedy("see 'palyra workspace list'")
	})
	r.tell(ctx)
	if err != nil {
		return fmt.Errorf("workspace: remove: %w", err)
	}
	return nil
}

const columns = `path, name, owner, added_by, added_at, repository`

func scanned(scan func(...any) error) (palyra.Workspace, error) {
	var w palyra.Workspace
	var at int64
	var repository string
	err := scan(&w.Path, &w.Name, &w.Owner, &w.AddedBy, &at, &repository)
	w.AddedAt = time.Unix(0, at).UTC()
	if err == nil && repository != "" {
		err = json.Unmarshal([]byte(repository), &w.Repository)
	}
	return w, err
}

// List returns the registered workspaces by path.
func (r *Registry) List(ctx context.Context) ([]palyra.Workspace, error) {
	list := []palyra.Workspace{}
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT `+columns+` FROM workspaces ORDER BY path`, nil, func(scan func(...any) error) error {
			w, err := scanned(scan)
			list = append(list, w)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("workspace: list: %w", err)
	}
	return list, nil
}

// Find returns the registered workspace that is path or the nearest one that
// contains it. path must be real, as Resolve returns it.
func (r *Registry) Find(ctx context.Context, path string) (w palyra.Workspace, found bool, err error) {
	near, err := r.found.Get(ctx, path, func(tx *store.Tx) (*palyra.Workspace, error) { return nearest(tx, path) })
	if err != nil {
		return palyra.Workspace{}, false, fmt.Errorf("workspace: find: %w", err)
	}
	if near == nil {
		return palyra.Workspace{}, false, nil
	}
	return *near, true, nil
}

// nearest looks for path and for the directories that contain it; nil: none is registered.
func nearest(tx *store.Tx, path string) (*palyra.Workspace, error) {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		w, err := scanned(func(dest ...any) error {
			return tx.Get(`SELECT `+columns+` FROM workspaces WHERE path = ?`, []any{dir}, dest...)
		})
		if !errors.Is(err, store.ErrNoRows) {
			return &w, err
		}
		if dir == filepath.Dir(dir) {
			return nil, nil
		}
	}
}
