//go:build !cgo || !linux

// Command palyra-wasm is the process of the runtime of skills. This one was built without a C compiler, or for a system
// on which skills do not run.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "palyra-wasm: built without the runtime; build it on Linux with a C compiler: make build")
	os.Exit(1)
}
