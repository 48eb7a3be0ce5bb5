//go:build !unix

package gitlink

import (
	"errors"
	"io/fs"
)

var errUnknown = errors.New("gitlink: repositories outside of a workspace are not known here")

func owner(fs.FileInfo) (int64, error) { return 0, errUnknown }

func number(fs.FileInfo) (uint64, error) { return 0, errUnknown }
