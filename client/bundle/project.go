package bundle

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra"
	"palyra/internal/policy"
)

// ProjectDir is where a workspace keeps policies of its own, below its root.
const ProjectDir = policy.ProjectDir

// Problem is one thing wrong with policies, and where.
type Problem = policy.Problem

// ProjectReport is the result of checking a workspace's own policies.
type ProjectReport struct {
	Dir      string // of the policies
	Bundle   palyra.Digest
	Policies int
	Problems []Problem // with any, calls in the workspace are refused
}

// CheckProject reads the policies of a workspace as a daemon does before every call there. Dir is the workspace, or
// the directory with the policies itself. An error means that there was nothing to read.
func CheckProject(dir string) (ProjectReport, error) {
	workspace, err := filepath.Abs(dir)
	if err != nil {
		return ProjectReport{}, noProject(dir).WithCause(err)
	}
	if own, ok := strings.CutSuffix(workspace, string(filepath.Separator)+filepath.FromSlash(ProjectDir)); ok {
		workspace = own
	}
	r := ProjectReport{Dir: filepath.Join(workspace, filepath.FromSlash(ProjectDir))}
	for part := ProjectDir; part != "."; part = filepath.Dir(part) {
		info, err := os.Lstat(filepath.Join(workspace, part))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return r, noProject(dir)
		case err != nil:
			return r, noProject(dir).WithCause(err)
		case info.Mode()&fs.ModeSymlink != 0:
			r.Problems = append(r.Problems, Problem{File: part, Line: 1, Column: 1, Text: "a link; put the directory itself there"})
			return r, nil
		}
	}
	b, err := policy.LoadProject(os.DirFS(r.Dir), nil)
	switch found := policy.Problems(nil); {
	case errors.As(err, &found):
		r.Problems = found
	case err != nil:
		return r, err
	case b == nil:
		return r, noProject(dir)
	default:
		r.Bundle, r.Policies = b.Digest(), len(b.Policies())
	}
	return r, nil
}

// ProblemsOf returns the faults of the files that an error of Read reports; nil for any other error.
func ProblemsOf(err error) []Problem {
	var found policy.Problems
	if errors.As(err, &found) {
		return found
	}
	return nil
}

func noProject(dir string) *palyra.Error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "%s has no policies of its own", dir).
		WithRemedy("name a workspace that has *.cedar files in %s", ProjectDir)
}
