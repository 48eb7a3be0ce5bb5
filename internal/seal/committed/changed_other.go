//go:build !linux

package committed

import (
	"io/fs"
	"time"
)

// changed is when a file was last changed; where only programs say so, it was just
// now.
func changed(fs.FileInfo) time.Time { return time.Now() }
