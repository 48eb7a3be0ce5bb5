//go:build !linux

package main

import "os"

func main() { _, _ = os.Stderr.WriteString("probe: it knows only Linux\n") }
