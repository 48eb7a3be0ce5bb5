//go:build cgo && linux && !escape

package main

// holes are functions that let modules out. There are none, but in a worker that a test builds for the purpose.
func holes() map[string]function { return nil }
