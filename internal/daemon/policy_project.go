package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"palyra"
	"palyra/internal/policy"
)

// maxProjects bounds how many workspaces' policies are held ready.
const maxProjects = 256

// projects reads the policies of workspaces, and keeps them while they are the
// same.
type projects struct {
	mu    sync.Mutex
	known map[string]*policy.Bundle
}

// of returns the policies of a workspace; nil when it has none.
func (p *projects) of(workspace string) (*policy.Bundle, error) {
	root, err := projectRoot(workspace)
	if root == nil {
		return nil, err
	}
	defer root.Close()
	p.mu.Lock()
	last := p.known[workspace]
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
	p.known[workspace] = b
	return b, nil
}

// projectRoot opens the directory with the policies; nil when there is none. A
// link cannot lead out of the workspace.
func projectRoot(workspace string) (*os.Root, error) {
	root, err := os.OpenRoot(workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the plan says what is to be said of that
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for part := policy.ProjectDir; part != "."; part = filepath.Dir(part) { // what a link leads to is not sealed
		if info, err := root.Lstat(part); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonConfig, "%s of the workspace is a link", part).WithRemedy("put the directory itself there")
		}
	}
	dir, err := root.OpenRoot(policy.ProjectDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// projectFS is that directory. Whoever works in the workspace could put a pipe
// there, which is not waited for.
type projectFS struct{ root *os.Root }

// Open implements fs.FS.
func (p projectFS) Open(name string) (fs.File, error) {
	return p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
