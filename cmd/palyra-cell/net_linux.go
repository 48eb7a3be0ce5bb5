package main

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// loopback is the index of the first interface in every network namespace.
const loopback = 1

// backlog is how many connections may wait at a listener.
const backlog = 128

// sockets makes all sockets of the room's network: a socket stays in the namespace where it was made, whoever uses it
// later.
func (b *builder) sockets() failure {
	var err error
	if b.netlink, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE); err != nil {
		return failed("network", "", err)
	}
	for _, d := range b.room.Listeners {
		family, kind := unix.AF_INET6, unix.SOCK_STREAM
		switch {
		case d.Path != "":
			family = unix.AF_UNIX
		case d.Addr.Addr().Is4(), d.Dial > 0:
			family = unix.AF_INET
		}
		if d.UDP {
			kind = unix.SOCK_DGRAM
		}
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if d.Dial != 0 && errors.Is(err, unix.EAFNOSUPPORT) { // a kernel without IPv6: the other kind reaches all there is
			fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		}
		if err != nil {
			return failed("door", doorName(d), err)
		}
		b.doors = append(b.doors, os.NewFile(uintptr(fd), "door"))
	}
	return failure{}
}

// connect brings up the network, and binds the listeners.
func (b *builder) connect() failure {
	defer func() { _ = unix.Close(b.netlink) }()
	if err := network(b.netlink, b.room.Range); err != nil {
		return failed("network", b.room.Range, err)
	}
	for i, d := range b.room.Listeners {
		if d.Path != "" || d.Dial != 0 {
			continue // done by placeUnix, or bound nowhere
		}
		if err := place(int(b.doors[i].Fd()), d); err != nil {
			return failed("door", doorName(d), err)
		}
	}
	return failure{}
}

// network brings up the loopback interface, the only one there is, and makes the addresses of the
// range local to it. All other addresses stay unreachable: there is no other route.
func network(fd int, addresses string) error {
	if err := netlink(fd, unix.RTM_NEWLINK, 0, linkUp()); err != nil || addresses == "" {
		return err
	}
	p, err := netip.ParsePrefix(addresses)
	if err != nil {
		return err
	}
	return netlink(fd, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, localRoute(p))
}

// linkUp is a struct ifinfomsg.
func linkUp() []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], loopback)
	binary.NativeEndian.PutUint32(b[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(b[12:], unix.IFF_UP)
	return b
}

// localRoute is a struct rtmsg with its two attributes.
func localRoute(p netip.Prefix) []byte {
	b := []byte{unix.AF_INET, byte(p.Bits()), 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	to := p.Addr().As4()
	b = attribute(b, unix.RTA_DST, to[:])
	return attribute(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback))
}

// attribute appends an attribute whose value is a multiple of four bytes.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return append(b, value...)
}

// netlink sends a request and waits for the kernel's answer.
func netlink(fd int, kind, flags uint16, body []byte) error {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	b = append(append(b, make([]byte, 8)...), body...) // no sequence number: one request at a time
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return unix.EPROTO
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// place binds a socket and lets it listen. Without SO_REUSEADDR and SO_REUSEPORT the run cannot listen beside it.
func place(fd int, d cell.Listener) error {
	var at unix.Sockaddr = &unix.SockaddrInet6{Port: int(d.Addr.Port()), Addr: d.Addr.Addr().As16()}
	if d.Addr.Addr().Is4() {
		at = &unix.SockaddrInet4{Port: int(d.Addr.Port()), Addr: d.Addr.Addr().As4()}
	} else if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
		return err
	}
	if err := unix.Bind(fd, at); err != nil || d.UDP {
		return err
	}
	return unix.Listen(fd, backlog)
}

// placeUnix binds the listeners that have a path, in the room's own /run.
func (b *builder) placeUnix() failure {
	for i, d := range b.room.Listeners {
		if d.Path == "" {
			continue
		}
		fd := int(b.doors[i].Fd())
		err := os.MkdirAll(filepath.Dir(d.Path), 0o700)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: d.Path})
		}
		if err == nil {
			err = unix.Listen(fd, backlog)
		}
		if err != nil {
			return failed("door", doorName(d), err)
		}
	}
	return failure{}
}

func doorName(d cell.Listener) string {
	switch {
	case d.Path != "":
		return d.Path
	case d.Dial != 0:
		return "dial"
	}
	return d.Addr.String()
}
