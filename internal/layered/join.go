package layered

import (
	"io/fs"
	"os"

	"palyra/internal/subpath"
)

// Files are what can be read of a directory. Names are relative to it and clean.
type Files interface {
	Open(name string) (*os.File, error)                   // a regular file
	ReadDir(name string, most int) ([]fs.DirEntry, error) // one more than most, where there are more
}

// Join is a directory with another one in the place of something that is in it.
func Join(at string, outer, inner Files) Files { return joined{at, outer, inner} }

type joined struct {
	at           string
	outer, inner Files
}

// Open implements Files.
func (j joined) Open(name string) (*os.File, error) {
	if rest, in := subpath.Rel(j.at, name); in && rest != "." {
		return j.inner.Open(rest)
	}
	return j.outer.Open(name)
}

// ReadDir implements Files.
func (j joined) ReadDir(name string, most int) ([]fs.DirEntry, error) {
	if rest, in := subpath.Rel(j.at, name); in {
		return j.inner.ReadDir(rest, most)
	}
	return j.outer.ReadDir(name, most)
}
