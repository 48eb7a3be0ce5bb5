package posture

import (
	"os"
	"strings"

	"palyra"
)

// hostFacts are the facts of the machine. A fact that cannot be read is empty, and so differs from every one
// that could.
func hostFacts() map[string]string {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return palyra.Clip(strings.TrimSpace(string(b)), 256)
	}
	return map[string]string{
		"kernel":  read("/proc/sys/kernel/osrelease"),
		"build":   read("/proc/sys/kernel/version"),
		"boot_id": read("/proc/sys/kernel/random/boot_id"),
	}
}
