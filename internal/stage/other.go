//go:build !linux

package stage
