//go:build !unix

package child

import "os/exec"

// Group says how a program is ended; it cannot be asked to, and what it started stays.
func Group(cmd *exec.Cmd) (end func(hard bool) error) {
	return func(hard bool) error {
		if !hard {
			return nil
		}
		return cmd.Process.Kill()
	}
}

// Alone has a program run without the terminal; here it has no other one.
func Alone(*exec.Cmd) {}
