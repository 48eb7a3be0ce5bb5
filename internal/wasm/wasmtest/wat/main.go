//go:build cgo

// Command wat writes the module on stdin, in WebAssembly's text format, to stdout in its binary format. Tests use it. It
// writes nothing if there is an error in it, and says that on stderr.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		text, err = wasmtime.Wat2Wasm(string(text))
	}
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
