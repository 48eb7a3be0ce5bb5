//go:build !cgo

// Command wat was built without a C compiler, and does nothing.
package main

func main() {}
