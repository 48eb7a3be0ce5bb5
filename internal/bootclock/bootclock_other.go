//go:build !linux

package bootclock

import "time"

// Now has no boot clock here: deadlines are kept by the wall clock and its high-water mark alone.
func Now() (string, time.Duration) { return "", 0 }
