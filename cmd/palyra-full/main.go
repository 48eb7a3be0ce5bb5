// Command palyra-full is the whole command line of the gate. People type palyra, which is small, starts fast, and becomes
// this one for whatever it does not know itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"palyra/internal/cli"
)

// version is stamped by the build.
var version = "dev"

func main() {
	startFast()
	os.Exit(run())
}

// startFast lets the collector wait: one look at the heap is a quarter of what a command takes that answers at once. One
// that goes on has it back after a second. Who sets GOGC is obeyed.
func startFast() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(1000)
	time.AfterFunc(time.Second, func() { debug.SetGCPercent(usual) })
}

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
