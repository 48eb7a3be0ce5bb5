package bundle

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/subpath"
)

// maxProjects bounds how many workspaces' policies are held ready.
const maxProjects = 256

// Projects reads the policies of workspaces, and keeps them while they are the same.
type Projects struct {
	Find  func(context.Context, string) (palyra.Workspace, bool, error) // of the registry; nil: none is registered
	mu    sync.Mutex
	known map[string]*policy.Bundle
}

// Of returns the policies of a workspace; nil when it has none. Where the workspace lies in registered ones,
// their policies count as well, and those of every directory between: a call that names a directory further
// down is held to them all the same. So is a call that names one further up: the policies of the places below
// that it works in count too, with the directories on the way.
func (p *Projects) Of(workspace string, places ...string) (*policy.Bundle, error) {
	own, err := p.policiesAround(workspace)
	if err != nil {
		return nil, err
	}
	inner, err := p.dirsBelow(workspace, places)
	if err != nil {
		return nil, err
	}
	for _, dir := range inner {
		b, err := p.At(filepath.Join(workspace, dir))
		if err != nil {
			return nil, err
		}
		if b != nil {
			own = own.With(b, filepath.ToSlash(dir))
		}
	}
	return own, nil
}

// MaxBelow bounds the directories below a workspace that are looked into for a call.
const MaxBelow = 4096

// MayHave reports whether a directory may have policies of its own.
func (p *Projects) MayHave(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, filepath.Dir(policy.ProjectDir)))
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// dirsBelow are the directories that may have policies between a workspace and places in it, without the
// workspace itself, in order.
func (p *Projects) dirsBelow(workspace string, places []string) ([]string, error) {
	seen := map[string]bool{}
	var out []string
	for _, place := range places {
		rel, ok := subpath.Rel(workspace, place)
		if !ok {
			continue // it is not the workspace's
		}
		for dir := rel; dir != "." && !seen[dir]; dir = filepath.Dir(dir) {
			if seen[dir] = true; len(seen) > MaxBelow {
				return nil, palyra.Errorf(palyra.Denied, palyra.ReasonConfig, "the call works in more than %d directories", MaxBelow).
					WithRemedy("do it in more than one call")
			}
			if p.MayHave(filepath.Join(workspace, dir)) {
				out = append(out, dir)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// policiesAround returns the policies of a workspace and of the directories around it.
func (p *Projects) policiesAround(workspace string) (*policy.Bundle, error) {
	places, err := p.policyDirs(workspace)
	if err != nil {
		return nil, err
	}
	levels := make([]*policy.Bundle, len(places))
	for i, dir := range places {
		if levels[i], err = p.At(dir); err != nil {
			return nil, err
		}
	}
	return policy.JoinProjects(levels), nil
}

// maxAbove bounds the directories between a workspace and the outermost registered one.
const maxAbove = 64

// policyDirs are the directories whose policies a workspace has, its own first.
func (p *Projects) policyDirs(workspace string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	top := workspace
	for dir := workspace; p.Find != nil; dir = filepath.Dir(top) {
		w, found, err := p.Find(ctx, dir)
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		if top = w.Path; top == filepath.Dir(top) {
			break
		}
	}
	out := []string{workspace}
	for dir := workspace; dir != top && dir != filepath.Dir(dir); {
		if dir = filepath.Dir(dir); len(out) == maxAbove {
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonConfig,
				"the workspace lies more than %d directories below the one that is registered", maxAbove).
				WithRemedy("name a directory further up")
		}
		if _, err := os.Lstat(filepath.Join(dir, filepath.Dir(policy.ProjectDir))); dir != top && errors.Is(err, fs.ErrNotExist) {
			out = append(out, "")
			continue
		}
		out = append(out, dir)
	}
	return out, nil
}

// At returns the policies that stand in one directory.
func (p *Projects) At(dir string) (*policy.Bundle, error) {
	if dir == "" {
		return nil, nil
	}
	root, err := projectRoot(dir)
	if root == nil {
		return nil, err
	}
	defer root.Close()
	p.mu.Lock()
	last := p.known[dir]
	p.mu.Unlock()
	b, err := policy.LoadProject(projectFS{root}, last)
	if err != nil || b == last {
		return b, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxProjects {
		p.known = map[string]*policy.Bundle{}
	}
	p.known[dir] = b
	return b, nil
}

// projectRoot opens the directory with the policies; nil when there is none. A
// link cannot lead out of the workspace.
func projectRoot(workspace string) (*os.Root, error) {
	root, err := os.OpenRoot(workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the plan reports that problem itself
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for part := policy.ProjectDir; part != "."; part = filepath.Dir(part) { // a link's target is not sealed
		if info, err := root.Lstat(part); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonConfig, "%s of the workspace is a link", part).
				WithRemedy("put the directory itself there")
		}
	}
	dir, err := root.OpenRoot(policy.ProjectDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// projectFS is the directory with a workspace's policies. It never waits for a pipe, which anybody who works
// in the workspace could put there.
type projectFS struct{ root *os.Root }

// Open implements fs.FS.
func (p projectFS) Open(name string) (fs.File, error) {
	return p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
