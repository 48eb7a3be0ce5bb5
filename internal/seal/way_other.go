//go:build !linux

package seal

import (
	"os"
	"path/filepath"
)

// repositoryAt reports whether git takes a directory for a repository.
func repositoryAt(dir string) bool {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}
