package cell

// The limits of the reader's own user namespace. The kernel charges watching to this namespace and to all above, each
// with a limit of its own, so the lowest one holds.
const (
	InstancesPath = "/proc/sys/user/max_inotify_instances"
	WatchesPath   = "/proc/sys/user/max_inotify_watches"
)
