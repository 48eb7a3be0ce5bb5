package process

import (
	"path"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/subpath"
)

// relative returns a path as plans have it: relative to the workspace when it lies there, else absolute.
func relative(abs, workspace string) string {
	if rel, ok := subpath.Rel(workspace, abs); ok {
		return rel
	}
	return abs
}

// directory turns the working directory that a call names into an absolute path below the workspace. asked is the
// workspace in the caller's spelling. It works on text only; links are followed when the path is walked.
func directory(cwd, workspace, asked string) (string, error) {
	if cwd == "" {
		return workspace, nil
	}
	if !path.IsAbs(cwd) {
		abs := path.Join(workspace, cwd)
		if !subpath.Within(workspace, abs) {
			return "", outsideError(cwd)
		}
		return abs, nil
	}
	cwd = path.Clean(cwd)
	for _, top := range []string{workspace, path.Clean(asked)} {
		if path.IsAbs(top) && subpath.Within(top, cwd) {
			return path.Join(workspace, relative(cwd, top)), nil
		}
	}
	return "", outsideError(cwd)
}

func outsideError(p string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonPathOutside, "the directory %s lies outside the workspace", quote(p)).
		WithRemedy("give one relative to the workspace")
}

// quote is a path for an error message: short, and without characters that could make it look like another.
func quote(p string) string { return show.Arg(palyra.Clip(p, 200)) }
