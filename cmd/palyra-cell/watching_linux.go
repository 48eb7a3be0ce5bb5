package main

// The limits of the reader's own user namespace. The kernel charges watching to this namespace and to all above, each
// with a limit of its own, so the lowest one holds.
const (
	instancesPath = "/proc/sys/user/max_inotify_instances"
	watchesPath   = "/proc/sys/user/max_inotify_watches"
)
