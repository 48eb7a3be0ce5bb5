// Command palyra is the command line of the gate: it starts and stops the daemon, calls tools,
// answers approvals and checks evidence.
//
// It is small, because agents call it for everything they do: it answers what must be answered fast, and becomes
// palyra-tui or palyra-full, which lie beside it, for all else.
package main

import (
	"errors"
	"fmt"
	"os"

	"palyra"
	"palyra/internal/cli/quick"
	"palyra/internal/show"
)

// failedExec is the exit code of exec when Palyra itself failed.
const failedExec = 125

// version is stamped by the build.
var version = "dev"

func main() {
	a := quick.Run(quick.Process{Version: version, Args: os.Args[1:], Env: os.Environ()}, os.Stdout, os.Stderr)
	if a.Full == nil {
		os.Exit(a.Code)
	}
	code, err := goOn(a.Full)
	if err == nil {
		os.Exit(code)
	}
	fmt.Fprintf(os.Stderr, "palyra: %s\n", show.Line(err.Error()))
	if e := (*palyra.Error)(nil); errors.As(err, &e) && e.Remedy != "" {
		fmt.Fprintf(os.Stderr, "  remedy: %s\n", show.Line(e.Remedy))
	}
	if quick.IsExec(a.Full) {
		os.Exit(failedExec)
	}
	os.Exit(1)
}

// goOn leaves a line to the program that knows it. The full one knows all; in an agent's room it is the only other one.
func goOn(args []string) (code int, err error) {
	name := quick.Program(args)
	path, err := quick.Find(name)
	switch {
	case err == nil && name == quick.TUIName:
		return quick.BecomeTUI(path, args)
	case err != nil:
		path, err = quick.Find(quick.FullName)
	}
	if err != nil {
		return 0, err
	}
	return quick.Become(path, args)
}
