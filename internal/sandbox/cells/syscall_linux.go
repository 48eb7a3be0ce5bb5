package cells

import (
	"strings"

	"golang.org/x/sys/unix"
)

// The system calls that a run may make. The lists hold names of every architecture we know; a name
// that one of them lacks is left out there. A call in no list fails with ENOSYS, as if the kernel
// were older, so that programs fall back instead of failing.

// allowed calls work as usual.
var allowed = words(`
	read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close lseek
	stat fstat lstat newfstatat fstatat statx access faccessat faccessat2 readlink readlinkat getcwd chdir fchdir
	mmap munmap mprotect mremap brk madvise msync mincore mlock munlock mlock2 mlockall munlockall
	pkey_mprotect pkey_alloc pkey_free map_shadow_stack mseal mbind get_mempolicy set_mempolicy set_mempolicy_home_node
	rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend rt_tgsigqueueinfo sigaltstack
	kill tkill tgkill pidfd_open pidfd_send_signal pause
	fork vfork execve execveat exit exit_group wait4 waitid
	futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list set_tid_address rseq membarrier
	getpid getppid gettid getpgid getpgrp setpgid getsid setsid
	getuid geteuid getgid getegid getresuid getresgid getgroups capget capset
	setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups
	pipe pipe2 dup dup2 dup3 flock fsync fdatasync sync syncfs sync_file_range ftruncate fadvise64 readahead
	getdents getdents64 rename renameat renameat2 mkdir mkdirat rmdir link linkat symlink symlinkat unlink unlinkat umask
	utime utimes futimesat utimensat statfs fstatfs copy_file_range sendfile splice tee vmsplice cachestat
	getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat fsetxattr fremovexattr
	poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
	eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime close_range
	time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep times
	alarm getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete
	sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr sched_get_priority_max sched_get_priority_min
	sched_rr_get_interval getpriority ioprio_get getcpu getrlimit getrusage sysinfo uname getrandom
	sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockname getpeername getsockopt setsockopt
	prctl arch_prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self restart_syscall
`)

// refused calls fail with EPERM: a program that is told "not permitted" says so to its user. By reason: other
// processes; namespaces and mounts; the kernel itself; keys and tracing; surfaces that filters cannot see into; the
// network; objects that outlive a run; owners and watching, which Landlock leaves open.
var refused = words(`
	ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp migrate_pages move_pages
	mount umount2 pivot_root chroot unshare setns open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
	statmount listmount name_to_handle_at open_by_handle_at
	kexec_load kexec_file_load init_module finit_module delete_module create_module query_module get_kernel_syms reboot
	swapon swapoff quotactl quotactl_fd acct syslog sysfs ustat uselib nfsservctl lookup_dcookie vhangup iopl ioperm modify_ldt
	sethostname setdomainname settimeofday clock_settime adjtimex clock_adjtime
	keyctl add_key request_key bpf perf_event_open userfaultfd fanotify_init fanotify_mark
	io_uring_setup io_uring_enter io_uring_register
	socket connect bind listen accept accept4
	shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
	mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
	inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
`)

// unsupportedCalls fail with EOPNOTSUPP: setting attributes by path would reach files that Landlock hides (an
// access list is an attribute), and cp and tar take this answer for a file system without attributes. By
// descriptor they work. Disk space that is reserved without being written is not in the account of a run's
// writes, and could be the whole disk within a moment; programs then write instead.
var unsupportedCalls = words(`setxattr lsetxattr setxattrat removexattr lremovexattr removexattrat fallocate`)

// absent calls take a struct that a filter cannot read, so they fail as if they did not exist; the
// older call they replace is guarded instead.
var absent = words(`clone3 openat2`)

func words(s string) []string { return strings.Fields(s) }

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET
	makesFile   = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	anyID       = 0xffffffff // chown: leave as it is; personality: only ask
	socketType  = 0xf        // the rest of socketpair's type are flags
	ioprioSelf  = 1          // IOPRIO_WHO_PROCESS
	noRandomize = 0x40000    // ADDR_NO_RANDOMIZE: sanitizers run themselves again with it, and fail without; it affects nobody else
)

// guarded calls are allowed when their arguments pass. Arguments that the kernel takes as 32 bits
// are compared as 32 bits: the caller chooses the upper half.
func guarded(owner, group uint32) map[string][]argCheck {
	self := func(arg int) argCheck { return argCheck{arg: arg, oneOf: []uint32{0}} } // a pid of 0 is the caller; other processes are refused
	noSetuid := func(arg int) argCheck {
		return argCheck{arg: arg, mask: unix.S_ISUID | unix.S_ISGID, oneOf: []uint32{0}}
	}
	opensOnly := func(arg int) argCheck { return argCheck{arg: arg, mask: makesFile, oneOf: []uint32{0}, enough: true} }
	owned := func(arg int) []argCheck {
		return []argCheck{{arg: arg, oneOf: []uint32{owner, anyID}}, {arg: arg + 1, oneOf: []uint32{group, anyID}}}
	}
	// A limit of 0 would let a program of the host that takes cores read the run's memory: see
	// noCore. A program that sets 0 wants no core, and gets none.
	notCore := func(arg int, enough bool) argCheck {
		return argCheck{arg: arg, noneOf: []uint32{unix.RLIMIT_CORE}, enough: enough, done: !enough}
	}
	keepsMark := func(arg int) argCheck { return argCheck{arg: arg, noneOf: []uint32{markLimit}} }
	return map[string][]argCheck{
		"clone": {{arg: 0, mask: newNamespaces, oneOf: []uint32{0}}},
		// A datagram socket of a pair could still send to any named socket of the host.
		"socketpair": {{arg: 0, oneOf: []uint32{unix.AF_UNIX}}, {
			arg: 1, mask: socketType,
			oneOf: []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET},
		}},
		"ioctl":       {{arg: 1, noneOf: []uint32{unix.TIOCSTI, tiocLinux, unix.TIOCSETD, unix.TIOCCONS}}},
		"personality": {{arg: 0, oneOf: []uint32{0, noRandomize, anyID}}},
		"fcntl":       {{arg: 1, oneOf: fileCommands}},

		"open":      {opensOnly(1), noSetuid(2)},
		"openat":    {opensOnly(2), noSetuid(3)},
		"creat":     {noSetuid(1)},
		"mknod":     {noSetuid(1)},
		"mknodat":   {noSetuid(2)},
		"chmod":     {noSetuid(1)},
		"fchmod":    {noSetuid(1)},
		"fchmodat":  {noSetuid(2)},
		"fchmodat2": {noSetuid(2)},
		"chown":     owned(1),
		"lchown":    owned(1),
		"fchown":    owned(1),
		"fchownat":  owned(2),

		// prlimit could change the limits of another process of the same user, even the daemon's.
		"prlimit64": {
			{arg: 2, null: true, enough: true},
			self(0), keepsMark(1), notCore(1, true),
			{arg: 3, null: true},
			notCore(1, false),
		},
		"setrlimit":          {keepsMark(0), notCore(0, false)},
		"setpriority":        {self(0), self(1)},
		"ioprio_set":         {{arg: 0, oneOf: []uint32{ioprioSelf}}, self(1)},
		"sched_setaffinity":  {self(0)},
		"sched_setparam":     {self(0)},
		"sched_setscheduler": {self(0)},
		"sched_setattr":      {self(0)},
	}
}

// fileCommands are the allowed commands of fcntl. Leases and delegations are not among them, under
// any future name: whoever opens such a file waits for its holder, also outside. Nor are directory
// notifications, a form of watching.
var fileCommands = []uint32{
	unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, dupfdQuery, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL,
	unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW,
	unix.F_GETOWN, unix.F_SETOWN, unix.F_GETOWN_EX, unix.F_SETOWN_EX, unix.F_GETSIG, unix.F_SETSIG,
	createdQuery, unix.F_GETPIPE_SZ, unix.F_SETPIPE_SZ, unix.F_GET_SEALS, unix.F_ADD_SEALS,
	unix.F_GET_RW_HINT, unix.F_SET_RW_HINT,
}

// Commands without a name in the library: whether two descriptors are one file, whether opening made it.
const (
	dupfdQuery   = 1027 // F_DUPFD_QUERY
	createdQuery = 1028 // F_CREATED_QUERY
)

// roomCalls are harmless in a room, which has a network of its own.
var roomCalls = words(`
	connect bind listen accept accept4
`)

// watchCalls are for a room whose user namespace bounds them: the kernel counts watching for the user outside as
// well, and one run could exhaust that. fanotify stays refused: its permission events would hold up others.
var watchCalls = words(`inotify_init inotify_init1 inotify_add_watch inotify_rm_watch`)

// roomAttributes can be set by path where a cgroup counts the memory of files in a room's own
// places, which are in memory; elsewhere they cannot be set at all.
var roomAttributes = words(`setxattr lsetxattr setxattrat removexattr lremovexattr removexattrat fsetxattr fremovexattr`)

// roomMemory are calls for a room's own objects that hold memory outside of any process. Only a cgroup counts it.
var roomMemory = words(`shmget shmat shmdt shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl`)

// sockets are those that a room can have: ordinary ones of the internet protocols, which lead only
// to its own doors, and the one by which programs list their interfaces. Unix sockets are allowed
// only on request: somebody outside may listen on one in the workspace.
func sockets(filesystem bool) []branch {
	kind := func(oneOf ...uint32) argCheck { return argCheck{arg: 1, mask: socketType, oneOf: oneOf} }
	protocol := func(oneOf ...uint32) argCheck { return argCheck{arg: 2, oneOf: oneOf} }
	out := []branch{
		{
			argCheck{arg: 0, oneOf: []uint32{unix.AF_INET, unix.AF_INET6}},
			[]argCheck{kind(unix.SOCK_STREAM, unix.SOCK_DGRAM), protocol(0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)},
		},
		{
			argCheck{arg: 0, oneOf: []uint32{unix.AF_NETLINK}},
			[]argCheck{kind(unix.SOCK_RAW, unix.SOCK_DGRAM), protocol(unix.NETLINK_ROUTE)},
		},
	}
	if filesystem {
		out = append(out, branch{
			argCheck{arg: 0, oneOf: []uint32{unix.AF_UNIX}},
			[]argCheck{kind(unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET)},
		})
	}
	return out
}

// tiocLinux is TIOCLINUX, which pastes into the console.
const tiocLinux = 0x541c

// unmapped calls make memory that belongs to no process. Only a cgroup counts it, so without one they do not exist.
var unmapped = words(`memfd_create`)

// truncates are calls by path. Kernels whose Landlock does not know truncation would let them reach everything.
var truncates = words(`truncate`)
