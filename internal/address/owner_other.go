//go:build !unix

package address

import "os"

func openPlain(path string) (*os.File, error) { return os.Open(path) }

// own cannot be told here; directories of sockets are looked at elsewhere.
func own(os.FileInfo) bool { return true }

// mark is the same for all directories here: a copy cannot be told.
func mark(os.FileInfo) string { return "run ?" }
