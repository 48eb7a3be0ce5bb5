package main

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// What programs do with sockets, by system calls alone: the library's own package
// would make this program a dynamic one.

// socketFor is a socket and the address that it is for, "tcp/1.2.3.4:5".
func socketFor(at string) (fd int, addr unix.Sockaddr, err error) {
	network, text, _ := strings.Cut(at, "/")
	p, err := netip.ParseAddrPort(text)
	if err != nil {
		return -1, nil, err
	}
	kind, family := unix.SOCK_STREAM, unix.AF_INET6
	if network == "udp" {
		kind = unix.SOCK_DGRAM
	}
	addr = &unix.SockaddrInet6{Port: int(p.Port()), Addr: p.Addr().As16()}
	if p.Addr().Is4() {
		family, addr = unix.AF_INET, &unix.SockaddrInet4{Port: int(p.Port()), Addr: p.Addr().As4()}
	}
	fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20})
	}
	return fd, addr, err
}

// dial connects to every address, says hello and prints what it hears.
func dial(addrs []string) int {
	for _, a := range addrs {
		answer, err := hello(a)
		fmt.Println(a, answer, name(err))
	}
	return 0
}

func hello(at string) (string, error) {
	fd, addr, err := socketFor(at)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, addr); err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, []byte("hello from "+at)); err != nil {
		return "", err
	}
	b := make([]byte, 100)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}

// serve listens at every address, even beside others who would allow it, and
// connects to itself there.
func serve(addrs []string) int {
	for _, a := range addrs {
		fmt.Println(a, name(listenAt(a)))
	}
	return 0
}

func listenAt(at string) error {
	fd, addr, err := socketFor(at)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, addr); err != nil || strings.HasPrefix(at, "udp/") {
		return err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	to, addr, err := socketFor(at)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(to) }()
	return unix.Connect(to, addr)
}

func name(err error) string {
	if err == nil {
		return "ok"
	}
	return unix.ErrnoName(number32(err))
}

// answer is the other side of hello, at a door's descriptor: it prints where the
// call went.
func answer(door int, udp bool) (heard, at string, err error) {
	fd := door
	var from unix.Sockaddr
	if !udp {
		if fd, _, err = unix.Accept(door); err != nil {
			return "", "", err
		}
		defer func() { _ = unix.Close(fd) }()
		if from, err = unix.Getsockname(fd); err != nil {
			return "", "", err
		}
	}
	b := make([]byte, 100)
	n, caller, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return "", "", err
	}
	if udp {
		from = caller
		err = unix.Sendto(fd, []byte("answer"), 0, caller)
	} else {
		_, err = unix.Write(fd, []byte("answer"))
	}
	return string(b[:n]), text(from), err
}

func text(a unix.Sockaddr) string {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String()
	}
	return ""
}
