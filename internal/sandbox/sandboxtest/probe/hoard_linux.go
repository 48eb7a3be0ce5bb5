package main

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// hoards take one more of something that the kernel counts for each user.
func hoards() map[string]func(int) error {
	return map[string]func(int) error{
		"inotify": func(int) error { _, err := unix.InotifyInit1(unix.IN_CLOEXEC); return err },
		"watches": oneWatch,
		"pipes":   bigPipe,
		"queues": func(i int) error {
			_, err := queue(itoa(os.Getpid())+"-"+itoa(i), unix.O_CREAT|unix.O_RDWR)
			return err
		},
		"signals": oneSignal,
		"ptys": func(int) error {
			_, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			return err
		},
		"locked": lockPages,
		"timers": oneTimer,
		"epolls": oneEpoll,
		"files":  func(int) error { _, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0); return err },
	}
}

// hoardOps take one; they show what is left for others.
func hoardOps() map[string]operation {
	return map[string]operation{"one": {1, one}}
}

func one(a []string) (string, error) {
	runtime.LockOSThread()
	if err := hoards()[a[0]](0); err != nil {
		return "", err
	}
	if a[0] == "queues" {
		_, _ = raw(unix.SYS_MQ_UNLINK, place(itoa(os.Getpid())+"-0"))
	}
	return "", nil
}

// hoard takes as much as it can of a kind, a[1] at most, says how much it was, and holds it.
func hoard(a []string) int {
	runtime.LockOSThread()
	deaf()
	take, n := hoards()[a[0]], 0
	var err error
	for ; n < number(a[1]) && err == nil; n++ {
		err = take(n)
	}
	text := "held " + strconv.Itoa(n)
	if err != nil {
		text = "held " + strconv.Itoa(n-1) + " " + err.Error()
	}
	_, _ = os.Stdout.WriteString(text + "\n")
	ready()
	pause()
	return 0
}

// oneWatch watches a file of its own; every thousandth begins a new instance, so
// that the same thousand files serve.
func oneWatch(i int) error {
	const files = 1000
	name := "watched" + itoa(i%files)
	if i < files {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
	}
	if i == 0 || i%files == 0 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		watcher = fd
	}
	_, err := unix.InotifyAddWatch(watcher, name, unix.IN_MODIFY)
	return err
}

// watcher is the instance that oneWatch adds to.
var watcher int

// bigPipe makes a pipe as large as a user may. Whoever has had too many gets small ones, which is a failure here.
func bigPipe(int) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if n, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETPIPE_SZ, 0); err != nil || n < 65536 {
		return unix.ENOSPC
	}
	_, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, mebi)
	return err
}

// oneSignal leaves a signal with this thread that never takes it.
func oneSignal(i int) error {
	const number, queued = 40, 0xff // SI_QUEUE is -1
	if i == 0 {
		var set unix.Sigset_t
		set.Val[0] = 1 << (number - 1)
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
			return err
		}
		info := page()
		b := make([]byte, 128)
		b[0], b[8], b[9], b[10], b[11] = number, queued, queued, queued, queued
		carry(b, info)
		signalInfo = info
	}
	_, err := raw(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(unix.Getpid()), uintptr(unix.Gettid()), number, signalInfo)
	return err
}

// signalInfo is what oneSignal sends.
var signalInfo uintptr

func lockPages(int) error {
	_, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unix.MAP_LOCKED)
	return err
}

func oneTimer(int) error {
	_, err := raw(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, page())
	return err
}

func oneEpoll(int) error {
	_, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return err
}
