package bundle

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"palyra"
	"palyra/internal/policy"
)

// A directory of policies is written file by file, and half of the new ones with half of the old make
// policies that nobody meant. It is read once nothing in it has changed for a while.
const (
	dirQuiet    = 100 * time.Millisecond
	dirPatience = 5 * time.Second
)

// settledFiles reads the policies of a directory that holds still.
func settledFiles(ctx context.Context, dir string) (map[string]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dirPatience, errRestless)
	defer cancel()
	for {
		files, still, err := quietFiles(ctx, dir)
		if err != nil || still {
			return files, err
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonInterrupted, "policy directory: not read, since %v", cause).
				WithRemedy("write the new policies beside it and rename the directory into place, then signal again; the policies in force " +
					"stay as they are")
		}
	}
}

var errRestless = errors.New("it keeps changing")

// quietFiles reads the directory after a while in which it must not change, and reports whether it stayed the
// same until the reading was over.
func quietFiles(ctx context.Context, dir string) (map[string]string, bool, error) {
	root, err := os.OpenRoot(dir) // one directory, even if another takes its name meanwhile
	if err != nil {
		files, err := policy.Read(os.DirFS(dir)) // its errors name the path that people know
		return files, false, err
	}
	defer func() { _ = root.Close() }()
	before, err := listed(root.FS())
	if err != nil {
		return nil, false, err
	}
	select {
	case <-ctx.Done():
		return nil, false, nil
	case <-time.After(dirQuiet):
	}
	files, err := policy.Read(root.FS())
	if err != nil {
		after, failed := listed(root.FS())
		if failed != nil || !before.equal(after) { // a file went away while it was opened
			return nil, false, nil
		}
		return nil, false, err
	}
	after, err := listed(root.FS())
	if err != nil {
		return nil, false, err
	}
	now, err := os.Stat(dir)
	return files, err == nil && os.SameFile(now, after["."]) && before.equal(after), err
}

// listing is a directory and its tests as their metadata shows them.
type listing map[string]fs.FileInfo

func listed(fsys fs.FS) (listing, error) {
	l := listing{}
	for _, dir := range []string{".", "tests"} {
		info, err := fs.Stat(fsys, dir)
		if err != nil {
			if dir == "." {
				return nil, err
			}
			continue
		}
		l[dir] = info
		entries, err := fs.ReadDir(fsys, dir)
		if err != nil {
			continue // reading the file reports its problem
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				l[dir+"/"+e.Name()] = info
			}
		}
	}
	return l, nil
}

// equal reports whether no file was written, added, taken away or replaced.
func (l listing) equal(other listing) bool {
	if len(l) != len(other) {
		return false
	}
	for name, a := range l {
		b, ok := other[name]
		if !ok || a.Size() != b.Size() || a.Mode() != b.Mode() || !a.ModTime().Equal(b.ModTime()) || !os.SameFile(a, b) {
			return false
		}
	}
	return true
}
