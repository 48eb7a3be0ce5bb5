//go:build unix && !linux

package files

import "golang.org/x/sys/unix"

func exchange(int, string, string) error { return unix.ENOSYS }

func move(int, string, string) error { return unix.ENOSYS }

func keepACL(int, string, int) error { return nil }
