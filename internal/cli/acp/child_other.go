//go:build !unix

package acp

import "os/exec"

func apart(*exec.Cmd) {}

// finish ends the agent.
func finish(cmd *exec.Cmd, hard bool) {
	if hard {
		_ = cmd.Process.Kill()
	}
}
