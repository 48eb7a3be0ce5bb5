//go:build !linux

package daemon

import "time"

// boot has no boot clock here: deadlines are kept by the wall clock and its high-water mark alone.
func boot() (string, time.Duration) { return "", 0 }
