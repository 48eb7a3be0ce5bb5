// Command palyra-full is the whole command line of the gate. People type palyra, which is small, starts fast, and becomes
// this one for whatever it does not know itself.
package main

import (
	"os"

	"palyra/internal/cli"
)

// version is stamped by the build.
var version = "dev"

func main() { os.Exit(cli.Run(version)) }
