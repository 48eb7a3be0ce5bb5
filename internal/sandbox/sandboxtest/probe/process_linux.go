package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processOps act on another process, whose pid is the first argument.
func processOps() map[string]operation {
	return map[string]operation{
		"kill":      {2, func(a []string) (string, error) { return "", unix.Kill(number(a[0]), unix.Signal(number(a[1]))) }},
		"tgkill":    {2, tgkill},
		"pidfd":     {2, pidfd},
		"broadcast": {1, func(a []string) (string, error) { return "", unix.Kill(-1, unix.Signal(number(a[0]))) }},
		"sigio":     {2, sigio},
		"ptrace":    {1, ptrace},
		"vmread":    {1, vmread},
		"pidfdget":  {1, pidfdGet},
		"prlimit":   {1, prlimit},
		"renice":    {1, func(a []string) (string, error) { return "", unix.Setpriority(unix.PRIO_PROCESS, number(a[0]), 1) }},
		"affinity":  {1, affinity},
		"scheduler": {1, scheduler},
		"ioprio":    {1, ioprio},
		"proc":      {2, func(a []string) (string, error) { return readSome(os.Open("/proc/" + a[0] + "/" + a[1])) }},
		"procmem":   {1, procmem},
		"procroot":  {2, func(a []string) (string, error) { return readSome(os.Open("/proc/" + a[0] + "/root" + a[1])) }},
		"proccwd":   {2, func(a []string) (string, error) { return readSome(os.Open("/proc/" + a[0] + "/cwd/" + a[1])) }},
		"scan":      {1, scan},
	}
}

func tgkill(a []string) (string, error) {
	pid := number(a[0])
	return "", unix.Tgkill(pid, pid, unix.Signal(number(a[1])))
}

func pidfd(a []string) (string, error) {
	fd, err := unix.PidfdOpen(number(a[0]), 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	return "", unix.PidfdSendSignal(fd, unix.Signal(number(a[1])), nil, 0)
}

// sigio makes the kernel send the signal: a pipe of ours tells another process that something can be read.
func sigio(a []string) (string, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return "", err
	}
	defer func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) }()
	for _, c := range [][2]int{{unix.F_SETOWN, number(a[0])}, {unix.F_SETSIG, number(a[1])}, {unix.F_SETFL, unix.O_NONBLOCK | unix.O_ASYNC}} {
		if _, err := unix.FcntlInt(uintptr(p[0]), c[0], c[1]); err != nil {
			return "", err
		}
	}
	_, err := unix.Write(p[1], []byte("x"))
	return "", err
}

func ptrace(a []string) (string, error) {
	pid := number(a[0])
	if err := unix.PtraceSeize(pid); err != nil {
		return "", err
	}
	return "", nil // the kernel detaches when this thread ends
}

func vmread(a []string) (string, error) {
	b := make([]byte, 8)
	local := []unix.Iovec{{Base: &b[0], Len: 8}}
	_, err := unix.ProcessVMReadv(number(a[0]), local, []unix.RemoteIovec{{Base: 0x10, Len: 8}}, 0)
	if err == unix.EFAULT {
		err = nil // we were let in; that there is nothing at the address is another matter
	}
	return "", err
}

// pidfdGet takes descriptor 0 of another process.
func pidfdGet(a []string) (string, error) {
	fd, err := unix.PidfdOpen(number(a[0]), 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	got, err := unix.PidfdGetfd(fd, 0, 0)
	if err == nil {
		_ = unix.Close(got)
	}
	return "", err
}

// prlimit sets a limit of another process to what it is. With RLIMIT_CPU this is a way to kill it.
func prlimit(a []string) (string, error) {
	var now unix.Rlimit
	if err := unix.Prlimit(number(a[0]), unix.RLIMIT_CPU, nil, &now); err != nil {
		return "", err
	}
	return "", unix.Prlimit(number(a[0]), unix.RLIMIT_CPU, &now, nil)
}

func affinity(a []string) (string, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(number(a[0]), &set); err != nil {
		return "", err
	}
	return "", unix.SchedSetaffinity(number(a[0]), &set)
}

func scheduler(a []string) (string, error) {
	return "", unix.SchedSetAttr(number(a[0]), &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0)
}

func ioprio(a []string) (string, error) {
	const whoProcess, bestEffort7 = 1, 2<<13 | 7
	if _, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(number(a[0])), bestEffort7); e != 0 {
		return "", e
	}
	return "", nil
}

func procmem(a []string) (string, error) {
	fd, err := unix.Open("/proc/"+a[0]+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return "", err
}

// scan looks for a text in the environment and arguments of every process.
func scan(a []string) (string, error) {
	own, _ := os.Readlink("/proc/self")
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range dir {
		if e.Name() == own || strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		for _, file := range []string{"environ", "cmdline"} {
			if b, err := os.ReadFile("/proc/" + e.Name() + "/" + file); err == nil && bytes.Contains(b, []byte(a[0])) {
				found = append(found, e.Name()+"/"+file)
			}
		}
	}
	if len(found) == 0 {
		return "", syscall.ENOENT
	}
	return strings.Join(found, " "), nil
}
