package tiers

import (
	"os"
	"path/filepath"

	"palyra"
	"palyra/internal/cell"
)

// agentTools are the programs that an agent in a room finds: the two of the command that
// speaks to Palyra, as far as they lie beside the daemon.
func agentTools() []palyra.Mount {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	var tools []palyra.Mount
	for _, name := range []string{"palyra", "palyra-full"} {
		command := filepath.Join(filepath.Dir(self), name)
		if fi, err := os.Stat(command); err == nil && fi.Mode().IsRegular() {
			tools = append(tools, palyra.Mount{Source: command, Target: cell.RoomPalyra + "/bin/" + name})
		}
	}
	return tools
}
