package doctor

import "os/exec"

// processGroup says how a program is ended; what it started stays there.
func processGroup(cmd *exec.Cmd) (end func() error) {
	return func() error { return cmd.Process.Kill() }
}
