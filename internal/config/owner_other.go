//go:build !unix

package config

import "os"

// openPlain opens a file to read.
func openPlain(path string) (*os.File, error) { return os.Open(path) }

// writableByOthers cannot be told from a mode here; the user's profile directory is private by default.
func writableByOthers(os.FileInfo) string { return "" }
