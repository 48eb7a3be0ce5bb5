// Command palyra-cell will be the static helper that finishes a sandbox room
// from the inside and then becomes the program that was granted.
//
// Native processes are not part of this version, so neither is the room: the
// command tells its version and refuses everything else. It exists so that
// builds, packages and digests already have its place. Standard library only.
package main

import (
	"fmt"
	"io"
	"os"
)

// version is set at build time.
var version = "devel"

// refused is the exit code of Palyra itself failing, as opposed to the program
// it was asked to run.
const refused = 125

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	if len(args) == 1 && args[0] == "--version" {
		_, _ = fmt.Fprintln(out, "palyra-cell", version)
		return 0
	}
	_, _ = fmt.Fprintln(errs, "palyra-cell: this version of Palyra runs no native processes, so there is nothing for the cell to do.")
	_, _ = fmt.Fprintln(errs, "It is started by palyrad inside a sandbox and is never run by hand.")
	return refused
}
