// Command palyra-cell starts and ends everything that runs natively. It is started by palyrad, never by hand.
//
// As "supervise" it is a cell's supervisor: it speaks internal/cell on descriptor 3, makes its launcher ahead, and
// once a program runs reaps, watches and kills until nothing of the tree is left. The launcher is a copy of it without
// Go's runtime (internal/cell/first), which waits, then confines itself as the Spec says and becomes the program; tier B's
// becomes the program's user while it waits, and has the rest from palyrad itself. As
// "inside" it is a template: process 1 of namespaces that bubblewrap made, which makes rooms inside them, each with
// namespaces of its own, and holds what runs there to its limits. As "probe" it is itself a program in the sandbox and
// tries what must not work there.
//
// It promises: Failed means that nothing ran; Ended means that nothing is left; when palyrad goes, so does the
// tree. It does not judge a Spec, for which palyrad answers; it applies all of it or runs nothing.
//
// It imports only the standard library, x/sys, internal/cell and what is below that: it must be
// small and start fast. (The directives turn off features that read cgroup files at every start.)
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"palyra/internal/cell"
	"palyra/internal/cell/probe"
)

// version is set at build time.
var version = "devel"

const refused = cell.Refused

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	if len(args) > 0 && args[0] == "supervise" && places(args[1:]) {
		return supervise(errs, true, args[1:]...)
	}
	if len(args) > 0 && args[0] == "probe" {
		return probe.Run(args[1:], out)
	}
	switch {
	case slices.Equal(args, []string{"--version"}):
		_, _ = io.WriteString(out, "palyra-cell "+version+"\n")
		return 0
	case len(args) == 2 && args[0] == cell.InsideArg && isMark(args[1]):
		return template(errs)
	}
	return refuse(errs, "this is a part of palyrad, which starts it; it is never run by hand")
}

// places reports whether every argument names a cgroup, or the launcher's socket.
func places(args []string) bool {
	for _, a := range args {
		if a != cell.LaunchArg && !strings.HasPrefix(a, cell.TasksArg+"/") && !strings.HasPrefix(a, cell.IntoArg+"/") {
			return false
		}
	}
	return true
}

// isMark reports whether the text is a mark, by which the daemon finds its cell.
func isMark(mark string) bool { return len(mark) > 0 && len(mark) <= 128 }

// refuse prints in one line why the cell does nothing.
func refuse(errs io.Writer, why string) int {
	_, _ = io.WriteString(errs, "palyra-cell: "+why+"\n")
	return refused
}
