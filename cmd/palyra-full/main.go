// Command palyra-full is the whole command line of the gate. People type palyra, which is small, starts fast, and becomes
// this one for whatever it does not know itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"palyra/internal/cli"
)

// version is stamped by the build.
var version = "dev"

func main() { os.Exit(run()) }

// run cancels the command's context at the first signal; the second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return cli.Main(ctx, cli.Process{
		Version: version, Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout,
		Stderr: os.Stderr,
	})
}
