package gitfile

import (
	"slices"
	"strings"
)

// Object reports whether a path is of what git stores objects in, loose or packed, of a repository in a work tree or of
// its submodules, and returns the path of the whole store: .git/objects of .git/objects/ab/cdef.
func Object(path string) (store string, is bool) {
	parts := strings.Split(path, "/")
	git := slices.Index(parts, Own)
	for i := git + 1; git >= 0 && i < len(parts)-1; i++ {
		if parts[i] != "objects" || i > git+1 && parts[git+1] != "modules" {
			continue
		}
		if next := parts[i+1]; next == "pack" || len(next) == 2 && strings.Trim(next, "0123456789abcdef") == "" {
			return strings.Join(parts[:i+1], "/"), true
		}
	}
	return "", false
}
