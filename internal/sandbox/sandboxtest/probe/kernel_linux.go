package main

import (
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelOps are doors of the kernel itself.
func kernelOps() map[string]operation {
	return map[string]operation{
		"syscall":   {1, call},
		"ioctl":     {1, ioctl},
		"namespace": {1, namespace},
	}
}

// calls are dangerous calls with arguments that fail, for anyone whom the kernel listens to, in another way than by
// being forbidden, and that do nothing should they succeed.
func calls() map[string][]uintptr {
	const none, flags = ^uintptr(0), 0xffff0000
	all := map[string][]uintptr{
		"mount":             {unix.SYS_MOUNT, 0, 0, 0, 0, 0},
		"umount2":           {unix.SYS_UMOUNT2, 0, 0},
		"pivot_root":        {unix.SYS_PIVOT_ROOT, 0, 0},
		"chroot":            {unix.SYS_CHROOT, 0},
		"unshare":           {unix.SYS_UNSHARE, 0},
		"unshare_user":      {unix.SYS_UNSHARE, unix.CLONE_NEWUSER | unix.CLONE_SIGHAND<<40},
		"setns":             {unix.SYS_SETNS, none, 0},
		"bpf":               {unix.SYS_BPF, 9999, 0, 0},
		"keyctl":            {unix.SYS_KEYCTL, 9999},
		"add_key":           {unix.SYS_ADD_KEY, 0, 0, 0, 0, 0},
		"request_key":       {unix.SYS_REQUEST_KEY, 0, 0, 0, 0},
		"io_uring_setup":    {unix.SYS_IO_URING_SETUP, 0, 0},
		"io_uring_enter":    {unix.SYS_IO_URING_ENTER, none, 0, 0, 0, 0, 0},
		"io_uring_register": {unix.SYS_IO_URING_REGISTER, none, 0, 0, 0},
		"userfaultfd":       {unix.SYS_USERFAULTFD, flags},
		"perf_event_open":   {unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, none, flags},
		"clone3":            {unix.SYS_CLONE3, 0, 0},
		"open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT, none, 0, 0},
		"name_to_handle_at": {unix.SYS_NAME_TO_HANDLE_AT, none, 0, 0, 0, flags},
		"kexec_load":        {unix.SYS_KEXEC_LOAD, 0, 0, 0, flags},
		"init_module":       {unix.SYS_INIT_MODULE, 0, 0, 0},
		"finit_module":      {unix.SYS_FINIT_MODULE, none, 0, flags},
		"delete_module":     {unix.SYS_DELETE_MODULE, 0, 0},
		"quotactl":          {unix.SYS_QUOTACTL, 0xff, 0, 0, 0},
		"swapon":            {unix.SYS_SWAPON, 0, 0},
		"swapoff":           {unix.SYS_SWAPOFF, 0},
		"reboot":            {unix.SYS_REBOOT, 0, 0, 0, 0},
		"acct":              {unix.SYS_ACCT, 1},
		"personality":       {unix.SYS_PERSONALITY, 0x0400000}, // READ_IMPLIES_EXEC
		"personality_high":  {unix.SYS_PERSONALITY, 0x0400000 | 1<<32},
		"fanotify_init":     {unix.SYS_FANOTIFY_INIT, none, 0},
		"dnotify":           {unix.SYS_FCNTL, none, unix.F_NOTIFY, 1},
		"process_vm_readv":  {unix.SYS_PROCESS_VM_READV, 0, 0, 0, 0, 0, 1},
		"process_vm_writev": {unix.SYS_PROCESS_VM_WRITEV, 0, 0, 0, 0, 0, 1},
		"pidfd_getfd":       {unix.SYS_PIDFD_GETFD, none, 0, 1},
		"kcmp":              {unix.SYS_KCMP, 0, 0, 0, 0, 0},
		"ptrace":            {unix.SYS_PTRACE, 2, 0, 0, 0}, // PEEKDATA of nobody
		"move_mount":        {unix.SYS_MOVE_MOUNT, none, 0, none, 0, flags},
		"open_tree":         {unix.SYS_OPEN_TREE, none, 0, flags},
		"fsopen":            {unix.SYS_FSOPEN, 0, flags},
		"fsconfig":          {unix.SYS_FSCONFIG, none, 0, 0, 0, 0},
		"fsmount":           {unix.SYS_FSMOUNT, none, flags, 0},
		"fspick":            {unix.SYS_FSPICK, none, 0, flags},
		"mount_setattr":     {unix.SYS_MOUNT_SETATTR, none, 0, flags, 0, 0},
		"syslog":            {unix.SYS_SYSLOG, 99, 0, 0},
		"sethostname":       {unix.SYS_SETHOSTNAME, 0, none},
		"setdomainname":     {unix.SYS_SETDOMAINNAME, 0, none},
		"settimeofday":      {unix.SYS_SETTIMEOFDAY, 1, 0},
		"clock_settime":     {unix.SYS_CLOCK_SETTIME, 0, 1},
		"mq_open":           {unix.SYS_MQ_OPEN, 0, 0, 0, 0},
		"seccomp_strict":    {unix.SYS_SECCOMP, 99, 0, 0},
		"unknown":           {4000},
	}
	for name, c := range archCalls() {
		all[name] = c
	}
	return all
}

func call(a []string) (string, error) {
	c, ok := calls()[a[0]]
	if !ok {
		return "this architecture has none", unix.ENOSYS
	}
	var arg [6]uintptr
	copy(arg[:], c[1:])
	n, _, e := unix.Syscall6(c[0], arg[0], arg[1], arg[2], arg[3], arg[4], arg[5])
	if e != 0 {
		return "", e
	}
	return strconv.Itoa(int(n)), nil
}

// ioctls are asked of stdin, which is not a terminal: whoever is listened to gets ENOTTY.
var ioctls = map[string]uintptr{
	"TIOCSTI": unix.TIOCSTI, "TIOCSTI_high": unix.TIOCSTI | 1<<32, "TIOCLINUX": unix.TIOCLINUX, "TIOCLINUX_high": unix.TIOCLINUX | 1<<40,
}

func ioctl(a []string) (string, error) {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, 0, ioctls[a[0]], 0); e != 0 {
		return "", e
	}
	return "", nil
}

var spaces = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
}

// namespace starts a child in new namespaces, "user+net".
func namespace(a []string) (string, error) {
	c := exec.Command("/proc/self/exe", "exit", "0")
	c.SysProcAttr = &unix.SysProcAttr{}
	for _, s := range strings.Split(a[0], "+") {
		c.SysProcAttr.Cloneflags |= spaces[s]
	}
	return "", c.Run()
}
