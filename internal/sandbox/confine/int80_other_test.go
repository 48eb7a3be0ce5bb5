//go:build linux && !amd64

package confine

func int80() {}
