//go:build !linux

package main

import "io"

// There is nothing to try out where there are no cells.
func probe([]string, io.Writer) int { return refused }
