package sandboxtest

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox"
)

// host is what can be reached outside: listeners on every kind of address.
type host struct {
	path, abstract, dgram, abstractDgram string
	tcp4, tcp6, udp                      string // ports
	six                                  bool   // the host has a loopback of version 6
}

func (b *bench) listen(t *testing.T) host {
	t.Helper()
	h := host{path: b.outside + "/operator.sock", abstract: "@" + b.mark, dgram: b.outside + "/log.sock", abstractDgram: "@d" + b.mark}
	b.greet(t, "unix", h.path)
	b.greet(t, "unix", h.abstract)
	check(t, os.Chmod(h.path, 0o777))
	for _, addr := range []string{h.dgram, h.abstractDgram} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: addr, Net: "unixgram"})
		check(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	check(t, os.Chmod(h.dgram, 0o777))
	h.tcp4 = port(b.greet(t, "tcp4", "127.0.0.1:0"))
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		_ = l.Close()
		h.tcp6, h.six = port(b.greet(t, "tcp6", "[::1]:0")), true
	}
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = u.Close() })
	h.udp = strconv.Itoa(u.LocalAddr().(*net.UDPAddr).Port)
	return h
}

func port(a net.Addr) string { return strconv.Itoa(a.(*net.TCPAddr).Port) }

// greet says the secret to whoever connects.
func (b *bench) greet(t *testing.T, network, addr string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, addr)
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = c.Write([]byte(b.secret))
			_ = c.Close()
		}
	}()
	return l.Addr()
}

func sockets(t *testing.T, b *bench) {
	h := b.listen(t)
	b.allow(t, "pair")
	b.deny(t, []denial{
		{"connect to the operator's socket", "unix " + h.path, "", works},
		{"connect to an abstract socket", "unix " + h.abstract, "", works},
		{"listen on a socket in the workspace", "listenunix " + b.ws + "/sock", "", works},
		{"connect to the host's loopback", "tcp4 " + h.tcp4, "", works},
		{"send from a pair to a named socket", "pairsend dgram " + h.dgram, "", works},
		{"send from a pair to an abstract socket", "pairsend dgram " + h.abstractDgram, "", works},
		{"connect a pair to a named socket", "pairdial dgram " + h.dgram, "", works},
		{"connect a raw pair to a named socket", "pairdial raw " + h.dgram, "", works},
		{"send from a raw pair to an abstract socket", "pairsend raw " + h.abstractDgram, "", works},
		{"make a unix socket", "socket unix stream 0", "", works},
		{"make a unix datagram socket", "socket unix dgram 0", "", works},
		{"make a unix socket by a number with high bits", "socket ^unix stream 0", "", works},
		{"make a raw socket", "socket inet raw 1", "", worksRoot},
		{"make a packet socket", "socket packet raw 0", "", worksRoot},
	})
	if h.six {
		b.deny(t, []denial{{"connect to the host's loopback of version 6", "tcp6 " + h.tcp6, "", works}})
	}
	var rest []denial
	for _, family := range []string{"vsock", "alg", "bluetooth", "key", "xdp", "can", "tipc", "qipcrtr", "mctp", "44"} {
		for _, kind := range []string{"stream", "dgram", "raw"} {
			// the kernel may have none
			rest = append(rest, denial{"make a socket: " + family + " " + kind, "socket " + family + " " + kind + " 0", "", unshown})
		}
	}
	b.deny(t, rest)
	if b.lacks(t, ownNetwork) {
		b.deny(t, noNetwork(h))
		return
	}
	b.deny(t, otherNetlinks())
	unixSockets(t, b, h)
}

// noNetwork are what a tier without a network denies; in a network of its own a program may do them.
func noNetwork(h host) []denial {
	return []denial{
		{"make an internet socket", "socket inet stream 0", "", works},
		{"make an internet socket by a number with high bits", "socket ^inet stream 0", "", works},
		{"make a datagram socket", "socket inet dgram 0", "", works},
		{"make an internet socket of version 6", "socket inet6 stream 0", "", works},
		{"make a multipath socket", "socket inet stream 262", "", unshown}, // MPTCP is an option of the kernel
		{"make a netlink socket", "socket netlink raw " + strconv.Itoa(unix.NETLINK_ROUTE), "", works},
		{"send a datagram to the host", "udp4 " + h.udp, "", works},
		{"listen on a port", "listen4", "", works},
	}
}

// otherNetlinks are doors to parts of the kernel that a program has no business with, whichever network it is in.
func otherNetlinks() []denial {
	var all []denial
	for no := 1; no <= 22; no++ {
		// the kernel may have none
		all = append(all, denial{fmt.Sprintf("make a netlink socket of protocol %d", no), fmt.Sprintf("socket netlink raw %d", no), "", unshown})
	}
	return append(all,
		denial{"ask about the host's sockets", "socket netlink dgram " + strconv.Itoa(unix.NETLINK_SOCK_DIAG), "", works},
		denial{"listen to the host's devices", "socket netlink dgram " + strconv.Itoa(unix.NETLINK_KOBJECT_UEVENT), "", works},
		denial{"make a raw socket of version 6", "socket inet6 raw 58", "", worksRoot},
		denial{"make a unix socket by a pair of another family", "socket netlink stream 0", "", unshown},
	)
}

// unixSockets: where a run may have them, they still reach only what it sees.
func unixSockets(t *testing.T, b *bench, h host) {
	o := order{change: func(j *sandbox.Job) { j.Unix = true }}
	b.allowAs(t, o, "pair", "listenunix "+b.ws+"/sock", "local unix="+b.ws+"/sock2", "local unix=$TMPDIR/sock", "local unix=@"+b.mark+"own")
	b.denyAs(t, o, []denial{
		{"connect to the operator's socket where sockets are allowed", "unix " + h.path, "", works},
		{"connect to an abstract socket where sockets are allowed", "unix " + h.abstract, "", works},
		{"send to a named socket where sockets are allowed", "pairsend dgram " + h.dgram, "", works},
		{"send to an abstract socket where sockets are allowed", "pairsend dgram " + h.abstractDgram, "", works},
		{"make a raw socket where sockets are allowed", "socket inet raw 1", "", worksRoot},
	})
}
