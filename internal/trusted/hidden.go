package trusted

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Hidden reports whether a path has a hidden name in it, but for those that only list files for a tool to leave
// alone, or hold a directory's place: programs keep their settings in hidden names, and not all of them are known.
func Hidden(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(name, ".") && !slices.Contains(harmless, name) {
			return true
		}
	}
	return false
}

var harmless = []string{
	".gitignore", ".gitkeep", ".keep", ".dockerignore", ".npmignore", ".prettierignore", ".eslintignore",
	".env.example",
}

// Local reports whether p is a clean path inside the workspace.
func Local(p string) bool {
	return filepath.IsLocal(p) && path.Clean(p) == p && !strings.ContainsAny(p, "\x00\\")
}
