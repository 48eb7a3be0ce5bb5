//go:build !linux

package foreignfile
