package cells

import (
	"path/filepath"

	"palyra/internal/sandbox"
	"palyra/internal/subpath"
)

// MaxID is the largest id of a user or a group.
const MaxID = 1<<32 - 2

// Clean reports whether a path is absolute, in its shortest form, and not the root.
func Clean(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && path != "/"
}

// Refuses says what is wrong with a job that no Runner should give to any tier; empty: nothing.
func (f *Fleet) Refuses(j sandbox.Job) (why string) {
	switch {
	case j.Stdin == nil || j.Stdout == nil || j.Stderr == nil:
		return "a standard stream is missing"
	case !Clean(j.Workspace):
		return "the workspace is not an absolute path"
	case j.Cwd != filepath.Clean(j.Cwd) || !subpath.Within(j.Workspace, j.Cwd):
		return "the working directory is outside the workspace"
	case len(j.Argv) == 0:
		return "no arguments, not even the program's name"
	case j.UID < 0 || j.GID < 0 || j.UID > MaxID || j.GID > MaxID:
		return "no such user or group"
	case f.UID != 0 && j.UID != f.UID:
		return "only root can run a program as somebody else"
	}
	return ""
}
