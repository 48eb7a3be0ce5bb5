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
	var tools []palyra.Mount
	for _, name := range []string{"palyra", "palyra-full"} {
		if command := programBeside(name); command != "" {
			tools = append(tools, palyra.Mount{Source: command, Target: cell.RoomPalyra + "/bin/" + name})
		}
	}
	return tools
}

// programBeside is a program that lies beside the daemon; "": it does not.
func programBeside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	program := filepath.Join(filepath.Dir(self), name)
	if fi, err := os.Stat(program); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	return program
}
