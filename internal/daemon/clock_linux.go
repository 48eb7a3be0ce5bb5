package daemon

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// boot returns this boot's id and how long the machine has been up, suspended
// time included. A wall clock can be set; this one cannot.
func boot() (string, time.Duration) {
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
