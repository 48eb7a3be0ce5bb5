//go:build !linux

package local

// Places is empty: other systems have no tier that hides them.
type Places struct{}
