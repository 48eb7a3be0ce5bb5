//go:build !linux

package quick

import "io"

// execute leaves every command to the full program here.
func execute(p Process, _ string, _ []string, _, _ io.Writer) Answer { return Answer{Full: p.Args} }
