//go:build linux || darwin

package keeper

import (
	"fmt"
	"path/filepath"
)

// fullPath is the one path of a directory that tells it from others, whatever links lead to it.
func fullPath(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("keeper: directory of the state: %w", err)
	}
	return dir, nil
}
