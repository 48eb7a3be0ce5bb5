//go:build cgo && linux

package main

import (
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// needed are the calls of the system that the runtime makes once it works: memory, threads, signals by which traps are
// noticed, and its two pipes. The cell has taken everything away that leads outside; this leaves nothing that could
// make a process, open a file, or make a socket either. What is not here fails with EPERM.
var needed = []string{
	"read", "write", "readv", "writev", "close", "fstat", "lseek",
	"mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "mincore",
	"futex", "sched_yield", "sched_getaffinity", "nanosleep", "clock_nanosleep", "clock_gettime", "gettimeofday", "getrandom",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "tgkill", "restart_syscall",
	"getpid", "gettid", "exit", "exit_group", "rseq", "set_robust_list", "membarrier",
	"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2", "fcntl",
	"timer_create", "timer_settime", "timer_delete",
}

// enclose gives up what a runtime at work does not need, for all threads there are and will be.
func enclose() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	here, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Clone(needed), func(name string) bool { _, ok := here.SyscallNames[name]; return !ok })
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true,
		Flag:       seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno,
			Syscalls: []seccomp.SyscallGroup{
				{Names: names, Action: seccomp.ActionAllow},
				{NamesWithCondtions: []seccomp.NameWithConditions{
					{Name: "clone", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
					{Name: "prctl", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: unix.PR_SET_VMA}}},
					{Name: "prctl", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: unix.PR_SET_NAME}}},
				}, Action: seccomp.ActionAllow},
				// The C library makes threads by clone where there is no clone3, whose flags no filter can read.
				{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
			},
		},
	})
}
