package invocation

import (
	"fmt"
	"os"
	"path/filepath"

	"palyra"
)

// DaemonName is the daemon's program.
const DaemonName = "palyrad"

// FindDaemon finds the daemon's program beside this one, or where packages put it. It never looks
// into PATH, where anybody's program may come first.
func FindDaemon() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cli: up: %w", err)
	}
	self, err = filepath.EvalSymlinks(self)
	if err != nil {
		return "", fmt.Errorf("cli: up: %w", err)
	}
	return daemonBeside(self)
}

// daemonBeside finds the daemon's program that belongs to a palyra.
func daemonBeside(self string) (string, error) {
	dir := filepath.Dir(self)
	places := []string{
		filepath.Join(dir, DaemonName), filepath.Join(dir, "../libexec/palyra", DaemonName),
		filepath.Join(dir, "../libexec", DaemonName),
	}
	for _, p := range places {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the program %s is not installed beside palyra", DaemonName).
		WithRemedy("install it in %s", dir)
}
