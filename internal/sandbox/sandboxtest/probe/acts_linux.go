package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// acts are behaviours; each returns the exit code.
func acts() map[string]func([]string) int {
	return map[string]func([]string) int{
		"exit":   func(a []string) int { return number(a[0]) },
		"fail":   func(a []string) int { _, _ = os.Stderr.WriteString(a[1] + "\n"); return number(a[0]) },
		"ticker": ticker, "planted": planted,
		"stubborn": stubborn, "spray": spray, "daemon": daemon, "hop": hop, "stopped": stopped, "sibling": sibling,
		"vfork": vfork, "execs": execs, "orphans": orphans,
		"forkbomb": forkBomb, "memory": memory, "memorytree": memoryTree, "memoryshared": memoryShared, "memoryfile": memoryFile,
		"memorytables": memoryTables, "memorysockets": memorySockets, "zombies": zombies, "threadbomb": threadBomb, "burnunseen": burnUnseen,
		"burn": burn, "burntree": burnTree, "burnthreads": burnThreads, "flood": flood,
		"hoard": hoard, "fillfs": fillFS, "fillinodes": fillInodes, "fillattributes": fillAttributes,
		"fillplaces": fillPlaces, "rewrite": rewrite, "rewritemapped": rewriteMapped,
		"memorypipes": memoryPipes, "memorysegments": memorySegments, "memoryconnections": memoryConnections,
		"serve": serve, "gocache": goCache,
	}
}

// ticker wakes every 10 ms until stdin ends and then prints the longest time
// between two wakes, in microseconds. It runs outside, as a neighbour.
func ticker([]string) int {
	runtime.LockOSThread()
	done := make(chan struct{})
	go func() { _, _ = os.Stdin.Read(make([]byte, 1)); close(done) }()
	_, _ = os.Stdout.WriteString("ready\n")
	var gaps []time.Duration
	last := time.Now()
	step := unix.NsecToTimespec(int64(10 * time.Millisecond))
	for {
		_ = unix.Nanosleep(&step, nil)
		now := time.Now()
		gaps, last = append(gaps, now.Sub(last)), now
		select {
		case <-done:
			slices.Sort(gaps)
			for _, share := range []int{100, 95} {
				_, _ = os.Stdout.WriteString(strconv.FormatInt(gaps[(len(gaps)-1)*share/100].Microseconds(), 10) + "\n")
			}
			return 0
		default:
		}
	}
}

// planted is a process of the outside: it prints every signal that reaches it and ends when its stdin does.
func planted([]string) int {
	got := make(chan os.Signal, 16)
	signal.Notify(got, unix.SIGWINCH, unix.Signal(40))
	done := make(chan struct{})
	go func() { _, _ = os.Stdin.Read(make([]byte, 1)); close(done) }()
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode("ready")
	for {
		select {
		case s := <-got:
			_ = out.Encode(s.String())
		case <-done:
			return 0
		}
	}
}

// deaf ignores every signal that can be ignored.
func deaf() {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPIPE, unix.SIGTSTP,
		unix.SIGXCPU)
}

func ready() { _, _ = os.Stdout.WriteString("ready\n") }

func stubborn([]string) int {
	deaf()
	ready()
	pause()
	return 0
}

func execs(a []string) int {
	n := number(a[0])
	if n == 0 {
		ready()
		return 0
	}
	err := unix.Exec("/proc/self/exe", []string{os.Args[0], "execs", strconv.Itoa(n - 1)}, os.Environ())
	if err != nil { // /proc may be masked
		err = unix.Exec(os.Args[0], []string{os.Args[0], "execs", strconv.Itoa(n - 1)}, os.Environ())
	}
	return fail("%v", err)
}

func burn(a []string) int {
	end := time.Now().Add(time.Duration(number(a[0])) * time.Millisecond)
	deaf()
	for time.Now().Before(end) {
	}
	return 0
}

// burnTree uses the processor by children that each use little of it.
func burnTree(a []string) int {
	end := time.Now().Add(time.Duration(number(a[0])) * time.Millisecond)
	for time.Now().Before(end) {
		if err := exec.Command(os.Args[0], "burn", "30").Run(); err != nil {
			return fail("%v", err)
		}
	}
	return 0
}

func burnThreads(a []string) int {
	for range 4 {
		go burn(a)
	}
	return burn(a)
}

// flood prints so many MiB.
func flood(a []string) int {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = "palyra\n"[i%7]
	}
	for range number(a[0]) {
		if _, err := os.Stdout.Write(b); err != nil {
			return fail("%v", err)
		}
	}
	return 0
}

// threadBomb has so many threads.
func threadBomb(a []string) int {
	deaf()
	for range number(a[0]) {
		go func() { // the runtime must know that it blocks, or it makes no more
			runtime.LockOSThread()
			for {
				_, _, _ = unix.Syscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}()
	}
	<-time.After(time.Minute)
	return 0
}
