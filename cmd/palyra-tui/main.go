// Command palyra-tui is the terminal UI of the gate. People type palyra or palyra tui, which becomes this one: without
// all the other commands it starts in half the time. It becomes palyra-full where there is nothing to draw.
package main

import (
	"os"

	"palyra/internal/cli/tui/program"
)

// version is stamped by the build.
var version = "dev"

func main() { os.Exit(program.Run(version)) }
