package seal

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// repositoryAt reports whether git takes a directory for a repository: the same
// question that the walk asks of directories in the workspace.
func repositoryAt(dir string) bool {
	has := func(name string) bool {
		_, err := statx(unix.AT_FDCWD, filepath.Join(dir, name), unix.AT_STATX_DONT_SYNC)
		return err == nil
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}
