package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// selfOps say who and where the probe is.
func selfOps() map[string]operation {
	return map[string]operation{
		"identity": {0, identity},
		"environ":  {0, func([]string) (string, error) { return strings.Join(os.Environ(), "\n"), nil }},
		"fds":      {0, descriptors},
		"abi":      {1, func(a []string) (string, error) { return foreignABI(a[0]) }},
		"threads":  {1, threads},
		"children": {1, children},
		"clock":    {0, clock},
		"random":   {0, random},
		"openmax":  {0, openMax},
		"setuid":   {1, func(a []string) (string, error) { return "", unix.Setresuid(number(a[0]), number(a[0]), number(a[0])) }},
	}
}

// who is an identity. The suite has the same type.
type who struct {
	UID, GID   [3]int
	Groups     []int
	Caps       string // effective, permitted, inheritable, bounding, ambient together: "" is none
	NoNewPrivs bool
	Seccomp    int
	Session    bool // it leads a session of its own
}

func identity([]string) (string, error) {
	var w who
	w.UID[0], w.UID[1], w.UID[2] = unix.Getresuid()
	w.GID[0], w.GID[1], w.GID[2] = unix.Getresgid()
	var err error
	if w.Groups, err = unix.Getgroups(); err != nil {
		return "", err
	}
	if w.Caps, err = capabilities(); err != nil {
		return "", err
	}
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return "", err
	}
	w.NoNewPrivs = nnp == 1
	if w.Seccomp, err = unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); err != nil {
		return "", err
	}
	sid, err := unix.Getsid(0)
	w.Session = err == nil && sid == unix.Getpid()
	b, err := json.Marshal(w)
	return string(b), err
}

// capabilities lists what is in any of the five sets.
func capabilities() (string, error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&h, &d[0]); err != nil {
		return "", err
	}
	var held []string
	note := func(set string, on bool, c int) {
		if on {
			held = append(held, set+strconv.Itoa(c))
		}
	}
	for c := range 64 {
		bit := uint32(1) << (c % 32)
		note("e", d[c/32].Effective&bit != 0, c)
		note("p", d[c/32].Permitted&bit != 0, c)
		note("i", d[c/32].Inheritable&bit != 0, c)
		b, _ := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		note("b", b == 1, c)
		a, _ := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(c), 0, 0)
		note("a", a == 1, c)
	}
	return strings.Join(held, " "), nil
}

// descriptors lists what is open beyond 0, 1 and 2 and not of the Go runtime, without /proc, which a tier may mask.
// The runtime's own are close-on-exec; what was inherited is not.
func descriptors([]string) (string, error) {
	var open []string
	for fd := 3; fd < 1<<16; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			open = append(open, strconv.Itoa(fd))
		}
	}
	return strings.Join(open, " "), nil
}

func threads(a []string) (string, error) {
	var all sync.WaitGroup
	hold := make(chan struct{})
	n := number(a[0])
	ready := make(chan struct{}, n)
	for range n {
		all.Go(func() { // a blocking call each: the runtime must make threads
			ready <- struct{}{}
			var p [2]int
			if unix.Pipe2(p[:], unix.O_CLOEXEC) != nil {
				return
			}
			defer func() { _ = unix.Close(p[0]) }()
			go func() { <-hold; _ = unix.Close(p[1]) }()
			_, _ = unix.Read(p[0], make([]byte, 1))
		})
	}
	for range n {
		<-ready
	}
	close(hold)
	all.Wait()
	return a[0], nil
}

// children runs so many programs one after the other.
func children(a []string) (string, error) {
	for range number(a[0]) {
		if err := exec.Command(os.Args[0], "exit", "0").Run(); err != nil {
			return "", err
		}
	}
	return a[0], nil
}

func clock([]string) (string, error) {
	start := time.Now()
	<-time.After(2 * time.Millisecond)
	if time.Since(start) < time.Millisecond || start.Year() < 2025 {
		return "", unix.ETIME
	}
	return start.Format(time.RFC3339), nil
}

func random([]string) (string, error) {
	b := make([]byte, 16)
	if _, err := unix.Getrandom(b, 0); err != nil {
		return "", err
	}
	f, err := os.Open("/dev/urandom")
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	_, err = f.Read(b)
	return "", err
}

// openMax counts how many descriptors it can have.
func openMax([]string) (string, error) {
	for n := 0; ; n++ {
		if _, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0); err != nil || n > 1<<20 {
			return strconv.Itoa(n), err
		}
	}
}
