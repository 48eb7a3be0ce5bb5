// Package e2e holds the end-to-end tests: the built binaries, a real state directory, the Go client, and a process
// that is killed for real. It has no code of its own.
package e2e
