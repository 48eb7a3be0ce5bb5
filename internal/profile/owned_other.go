//go:build !linux

package profile

import (
	"errors"
	"os"
)

// openOwned opens a regular file of uid's.
func openOwned(path string, uid int64) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !owned(info, uid) {
		return nil, errors.New("not a regular file of the owner's")
	}
	return os.Open(path)
}
