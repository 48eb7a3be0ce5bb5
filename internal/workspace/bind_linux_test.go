package workspace

import "syscall"

func bind(from, to string) error { return syscall.Mount(from, to, "", syscall.MS_BIND, "") }
func unbind(at string) error     { return syscall.Unmount(at, 0) }
