// Package workspace knows the directories in which agents work.
//
// Words: a workspace is an absolute, existing directory with every link in its path resolved; an operator registers
// it. Resolve turns the directory that a caller names into the workspace of a plan.
//
// Some directories are never workspaces, registered or not: the root, homes and what contains them, system
// directories, and whatever contains or lies in Palyra's own directories. One that nobody registered is allowed and
// said not to be known: policy asks about it and shows it as NEW. A directory inside a registered one is known: who
// trusts agents with a tree trusts them with its parts. The workspace is still the directory asked for and not the
// tree, so that a call reaches no further than its caller said.
//
// Every change of the registry is journaled in the transaction that makes it,
// with the operator's signature, which the caller has checked.
//
// Its words are those of docs/words.md.
package workspace

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"palyra"
	"palyra/internal/store"
)

//go:embed schema
var schema embed.FS

// Schema returns the part's tables.
func Schema() store.Schema { return store.SchemaOf("workspace", schema) }

// Config wires a Registry.
type Config struct {
	DB      *store.DB
	Journal store.Recorder
	Now     func() time.Time
	Own     []string // Palyra's own directories: state, config, runtime
	// Tell is told which directories are registered, by Told and after each change or attempt at one; false: that is not known. May be nil,
	// and must be where other daemons change the registry.
	Tell func(paths []string, known bool)
}

// Registry is the registered workspaces and the rules for all of them.
type Registry struct {
	Config
	euid   int64
	found  *store.Memo[string, *palyra.Workspace] // by directory, the nearest one; nil: none
	users  directory
	passed passed

	telling sync.Mutex
	told    bool // Told was called
}

// maxFound bounds how many directories are remembered.
const maxFound = 1024

// New returns a Registry.
func New(c Config) (*Registry, error) {
	if c.DB == nil || c.Journal == nil || c.Now == nil || len(c.Own) == 0 {
		return nil, errors.New("workspace: new: a part is missing")
	}
	for _, dir := range c.Own {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("workspace: new: own directory %q is not absolute", dir)
		}
	}
	return &Registry{Config: c, euid: int64(os.Geteuid()), found: store.NewMemo[string, *palyra.Workspace](c.DB, maxFound, "workspaces")}, nil
}

// Resolve returns the workspace for a directory that a caller of the given uid
// names. Refusals have the reason workspace_denied and a remedy.
func (r *Registry) Resolve(ctx context.Context, path string, peer int64) (palyra.WorkspaceRef, error) {
	real, owner, err := r.locate(path)
	if err != nil {
		return palyra.WorkspaceRef{}, err
	}
	w, found, err := r.Find(ctx, real)
	if err != nil {
		return palyra.WorkspaceRef{}, err
	}
	known := found && w.Owner == owner && !hidden(w.Path, real) // of another owner: not what was registered
	ref := palyra.WorkspaceRef{Path: real, Owner: owner, Known: known}
	if known && w.Path == real { // whoever registered the tree above it meant no other repository
		ref.Repository = r.known(w)
	}
	if r.euid != 0 {
		ref.Owner = r.euid // whoever the directory belongs to, the work is done as us
		return ref, nil
	}
	if !ref.Known && peer != 0 && peer != owner {
		return palyra.WorkspaceRef{}, palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, "%s is not an existing directory of uid %d",
			show(path), peer).
			WithRemedy("use a directory of your own, or have an operator run 'palyra workspace add %s'", show(path))
	}
	return ref, nil
}

// hidden reports whether a directory lies below a hidden one of the workspace that
// contains it: .git, .github, .palyra. Who registered the work did not mean those,
// where what is ordinary elsewhere makes other programs run code.
func hidden(top, dir string) bool {
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		return true
	}
	return rel != "." && slices.ContainsFunc(strings.Split(filepath.ToSlash(rel), "/"), func(part string) bool {
		part = strings.TrimLeftFunc(part, func(r rune) bool { return unicode.Is(unicode.Cf, r) })
		return strings.HasPrefix(part, ".") || strings.HasPrefix(strings.ToLower(part), "git~")
	})
}

const maxPath = 4096

// locate returns the real path of an acceptable directory and its owner.
func (r *Registry) locate(path string) (real string, owner int64, err error) {
	switch {
	case path == "":
		return "", 0, denied("no workspace is given").WithRemedy("name one: --workspace DIR")
	case len(path) > maxPath || !utf8.ValidString(path) || strings.IndexByte(path, 0) >= 0:
		return "", 0, denied("the workspace's path is too long or not valid text").WithRemedy("give an absolute path")
	case !filepath.IsAbs(path):
		return "", 0, denied("the workspace %s is not an absolute path", show(path)).WithRemedy("give an absolute path")
	}
	path = filepath.Clean(path)
	look := newGlance()
	if err := r.refuse(look, path, r.euid); err != nil { // before looking: what is there is nobody's business
		return "", 0, err
	}
	missing := denied("%s is not an existing directory", show(path)).WithRemedy("make it first, or name another")
	if real, err = filepath.EvalSymlinks(path); err != nil {
		return "", 0, missing.WithCause(err)
	}
	fi, err := os.Lstat(real)
	if err != nil || !fi.IsDir() {
		return "", 0, missing.WithCause(err)
	}
	if owner, err = ownerOf(fi); err != nil {
		return "", 0, err
	}
	if real == path && owner == r.euid { // the same look would say the same
		return real, owner, nil
	}
	return real, owner, r.refuse(look, real, owner)
}

func denied(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, format, args...)
}

// show quotes a path where it has anything that does not show as itself.
func show(path string) string {
	path = palyra.Clip(path, 256)
	for _, c := range path {
		if !unicode.IsPrint(c) {
			return fmt.Sprintf("%+q", path)
		}
	}
	return path
}
