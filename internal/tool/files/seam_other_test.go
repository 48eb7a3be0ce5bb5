//go:build unix && !linux

package files

func withoutOpenat2() {}
