//go:build !linux

package local

// Places are nothing here: other systems have no tier that hides them.
type Places struct{}
