package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// inside is what the test program does as the program in a cell.
func inside(name string, args []string) int {
	switch name {
	case "say":
		wd, _ := os.Getwd()
		env, _ := os.ReadFile("/proc/self/environ") // Go's own list leaves doubles out
		fmt.Printf("%q %q %q\n", os.Args[2:], strings.Split(strings.TrimSuffix(string(env), "\x00"), "\x00"), wd)
	case "read":
		b, _ := os.ReadFile(args[0])
		fmt.Print(string(b))
	case "flags":
		for fd := range 3 {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			fmt.Println(flags&unix.O_NONBLOCK != 0, err)
		}
	case "hog":
		if args[1] == "hidden" {
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
		}
		return hog(args[0])
	case "burn":
		return burn(args[0])
	case "burners":
		return burners()
	case "reach":
		return reach(args)
	case "dial":
		return dial(args)
	case "serve":
		return serve(args)
	case "watch":
		return watchAll(args)
	case "daemon":
		return daemon(args)
	default:
		return 99
	}
	return 0
}

// hog takes memory until there is as much as asked for, and holds it.
func hog(mib string) int {
	n, _ := strconv.Atoi(mib)
	var held [][]byte
	for range n / 4 {
		b := make([]byte, 4<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	fmt.Println("holding", len(held))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return len(held[0]) & 1
}

// burn spends CPU time.
func burn(ms string) int {
	n, _ := strconv.Atoi(ms)
	for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
	}
	return 0
}

// burners spends it in one child after the other whom nobody waits for: the
// kernel adds such children to nobody's account.
func burners() int {
	signal.Ignore(unix.SIGCHLD)
	for {
		c := exec.Command("/proc/self/exe", "inside:burn", "150")
		if err := c.Start(); err != nil {
			return 98
		}
		_ = c.Wait()
	}
}

// reach tries to get at processes that are none of its business, and prints what
// worked. It sends signal 0 only, and never to everyone: should the scope it tests
// be broken, the machine it is tested on must not be the one to find out.
func reach(pids []string) int {
	for _, arg := range append(pids, strconv.Itoa(os.Getppid())) {
		pid, _ := strconv.Atoi(arg)
		try(arg+" kill", unix.Kill(pid, 0))
		try(arg+" group", unix.Kill(-pid, 0))
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			try(arg+" pidfd", unix.PidfdSendSignal(fd, 0, nil, 0))
		}
		tasks, _ := filepath.Glob("/proc/" + arg + "/task/*")
		if len(tasks) == 0 {
			fmt.Println(arg, "has no tasks to try")
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(filepath.Base(task))
			try(arg+" tgkill "+filepath.Base(task), unix.Tgkill(pid, tid, 0))
			try(arg+" ptrace "+filepath.Base(task), unix.PtraceSeize(tid))
		}
		_, err := os.ReadFile("/proc/" + arg + "/environ")
		try(arg+" environ", err)
		_, err = os.OpenFile("/proc/"+arg+"/mem", os.O_RDWR, 0)
		try(arg+" mem", err)
		_, err = os.Readlink("/proc/" + arg + "/fd/0")
		try(arg+" fd", err)
	}
	fmt.Println("tried")
	return 0
}

func try(what string, err error) {
	if err == nil {
		fmt.Println("WORKED:", what)
	}
}

// daemon is a palyrad: it starts the cell, runs a script in it, and waits to be
// killed.
func daemon(args []string) int {
	ours, theirs, err := cell.Pair()
	if err != nil {
		return 97
	}
	c := exec.Command(args[0], "supervise")
	c.Env, c.ExtraFiles = []string{}, []*os.File{theirs}
	if err := c.Start(); err != nil {
		return 97
	}
	_ = theirs.Close()
	conn, err := cell.NewConn(ours)
	if err != nil {
		return 97
	}
	spec, err := cell.WriteSpec(shell(args[1]))
	if err != nil {
		return 97
	}
	if err := conn.Send(cell.Order{Kind: cell.OrderRun}, int(spec.Fd()), 0, 1, 2); err != nil {
		return 97
	}
	for {
		var r cell.Report
		if _, err := conn.Recv(&r); err != nil {
			return 97
		}
		fmt.Println(r.Kind, c.Process.Pid)
	}
}

// refuseCall assembles a filter that answers one system call with EPERM.
func refuseCall(nr uint32) []byte {
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(code)*8)...)
}

// status parses a /proc/PID/status.
func status(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			m[name] = strings.TrimSpace(value)
		}
	}
	return m
}
