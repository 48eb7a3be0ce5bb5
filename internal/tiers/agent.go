package tiers

import (
	"os"
	"path/filepath"

	"palyra"
	"palyra/internal/cell"
)

// agentTools are the programs that an agent in a room finds: the command that
// speaks to Palyra, as far as it lies beside the daemon.
func agentTools() []palyra.Mount {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	command := filepath.Join(filepath.Dir(self), "palyra")
	if fi, err := os.Stat(command); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	return []palyra.Mount{{Source: command, Target: cell.RoomPalyra + "/bin/palyra"}}
}
