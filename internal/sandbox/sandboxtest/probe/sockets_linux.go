package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func socketOps() map[string]operation {
	return map[string]operation{
		"socket":     {3, socket},
		"unix":       {1, func(a []string) (string, error) { return talk(unix.AF_UNIX, &unix.SockaddrUnix{Name: a[0]}) }},
		"tcp4":       {1, func(a []string) (string, error) { return talk(unix.AF_INET, loop4(a[0])) }},
		"tcp6":       {1, func(a []string) (string, error) { return talk(unix.AF_INET6, loop6(a[0])) }},
		"udp4":       {1, udp4},
		"listen4":    {0, listen4},
		"listenunix": {1, listenUnix},
		"pair":       {0, pair},
		"pairsend":   {2, pairSend},
		"pairdial":   {2, pairDial},
	}
}

var families = map[string]int{
	"unix": unix.AF_UNIX, "inet": unix.AF_INET, "inet6": unix.AF_INET6, "netlink": unix.AF_NETLINK,
	"vsock": unix.AF_VSOCK, "packet": unix.AF_PACKET, "alg": unix.AF_ALG, "bluetooth": unix.AF_BLUETOOTH, "key": unix.AF_KEY,
	"xdp": unix.AF_XDP, "can": unix.AF_CAN, "tipc": unix.AF_TIPC, "qipcrtr": unix.AF_QIPCRTR, "mctp": 45,
}

// kinds with high bits set are the same to the kernel, which takes an int, and
// another number to a filter that compares all 64 bits.
var kinds = map[string]int{
	"stream": unix.SOCK_STREAM, "dgram": unix.SOCK_DGRAM, "raw": unix.SOCK_RAW, "seqpacket": unix.SOCK_SEQPACKET,
}

// socket makes a socket of a family, kind and protocol; a family with "^" has bit 32 set as well.
func socket(a []string) (string, error) {
	family, high := a[0], uintptr(0)
	if family[0] == '^' {
		family, high = family[1:], 1<<32
	}
	no, known := families[family]
	if !known {
		no = number(family)
	}
	fd, _, e := unix.Syscall(unix.SYS_SOCKET, uintptr(no)|high, uintptr(kinds[a[1]]|unix.SOCK_CLOEXEC), uintptr(number(a[2])))
	if e != 0 {
		return "", e
	}
	_ = unix.Close(int(fd))
	return "", nil
}

func loop4(port string) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: number(port), Addr: [4]byte{127, 0, 0, 1}}
}

func loop6(port string) *unix.SockaddrInet6 {
	return &unix.SockaddrInet6{Port: number(port), Addr: [16]byte{15: 1}}
}

// talk connects and reads the listener's greeting.
func talk(family int, to unix.Sockaddr) (string, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, to); err != nil {
		return "", err
	}
	b := make([]byte, 256)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}

func udp4(a []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	return "", unix.Sendto(fd, []byte("x"), 0, loop4(a[0]))
}

func listen4([]string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, loop4("0")); err != nil {
		return "", err
	}
	return "", unix.Listen(fd, 1)
}

func listenUnix(a []string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: a[0]}); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(a[0]) }()
	return "", unix.Listen(fd, 1)
}

// pair is what ordinary programs need: two connected ends.
func pair([]string) (string, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	if _, err := unix.Write(fds[0], []byte("through")); err != nil {
		return "", err
	}
	b := make([]byte, 16)
	n, err := unix.Read(fds[1], b)
	return string(b[:max(n, 0)]), err
}

// pairSend makes a pair of datagram sockets, which the kernel lets send to any
// other address, and sends to one; pairDial connects it. a[0] is the kind.
func pairSend(a []string) (string, error) {
	return viaPair(a, func(fd int, to unix.Sockaddr) error { return unix.Sendmsg(fd, []byte("x"), nil, to, 0) })
}

func pairDial(a []string) (string, error) {
	return viaPair(a, func(fd int, to unix.Sockaddr) error {
		if err := unix.Connect(fd, to); err != nil {
			return err
		}
		_, err := unix.Write(fd, []byte("x"))
		return err
	})
}

func viaPair(a []string, send func(int, unix.Sockaddr) error) (string, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kinds[a[0]]|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	return strconv.Itoa(fds[0]), send(fds[0], &unix.SockaddrUnix{Name: a[1]})
}
