package cell

import "golang.org/x/sys/unix"

// Calls returns the numbers of the system calls that a cell makes once its room is built, with
// those of Go's runtime. A Room's Filter that refuses one of them, other than by an error that the
// runtime can bear, breaks the cell; it can refuse any other. Not among them: new programs, new
// files to write, sockets, mounts, namespaces, identities.
func Calls() []uint32 {
	return []uint32{
		// the daemon, the launcher and the watched files
		unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_LSEEK, unix.SYS_OPENAT, unix.SYS_GETDENTS64,
		unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_FCNTL, unix.SYS_IOCTL, unix.SYS_SENDMSG, unix.SYS_RECVMSG,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
		// the tree
		unix.SYS_KILL, unix.SYS_WAIT4, unix.SYS_GETPID, unix.SYS_GETTID,
		// the runtime: memory, threads, signals, time
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MPROTECT, unix.SYS_MINCORE, unix.SYS_BRK,
		unix.SYS_CLONE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL, unix.SYS_RESTART_SYSCALL,
		unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM,
		unix.SYS_RSEQ, unix.SYS_SET_ROBUST_LIST,
	}
}
