// Package bootclock knows how long the machine is up, which nobody can set as a wall clock can be.
package bootclock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns this boot's id and how long the machine has been up, suspended
// time included. A wall clock can be set; this one cannot.
func Now() (string, time.Duration) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return "", 0
	}
	return strings.TrimSpace(string(id)), time.Duration(ts.Nano())
}
