package main

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// networkOps reach for an address.
func networkOps() map[string]operation {
	return map[string]operation{
		"dial":    {2, dial},
		"say":     {3, say},
		"query":   {1, query},
		"ping":    {1, ping},
		"vsock":   {2, vsock},
		"through": {3, through},
		"lookup":  {1, lookup},
		"local":   {1, local},
		"many4":   {1, many4},
	}
}

// reach is how long an address may take to be there, or a name to be known, and hurry how long whoever is there may
// take to speak: the first is the kernel's, or next door.
const (
	reach = 250 * time.Millisecond
	hurry = time.Second
)

// dial connects, tcp or mptcp or unix, and reads the greeting.
func dial(a []string) (string, error) {
	d := net.Dialer{Timeout: 2 * reach} // a name comes first
	d.SetMultipathTCP(a[0] == "mptcp")
	c, err := d.Dial(strings.TrimPrefix(a[0], "mp"), a[1])
	if err != nil {
		return "", err
	}
	return hear(c)
}

func hear(c net.Conn) (string, error) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(hurry))
	b, err := io.ReadAll(io.LimitReader(c, 256))
	if len(b) == 0 && err == nil {
		err = unix.ENODATA
	}
	return string(b), err
}

// say connects, sends a text, in which "\n" is a new line, and reads what comes.
func say(a []string) (string, error) {
	c, err := net.DialTimeout(a[0], a[1], 2*reach)
	if err != nil {
		return "", err
	}
	if _, err := c.Write([]byte(plain(a[2]))); err != nil {
		return "", err
	}
	return hear(c)
}

// plain undoes what keeps a text one word.
func plain(s string) string { return strings.NewReplacer(`\n`, "\r\n", `_`, " ").Replace(s) }

// query sends a datagram and waits for one that comes back.
func query(a []string) (string, error) {
	c, err := net.DialTimeout("udp", a[0], reach)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("x")); err != nil {
		return "", err
	}
	_ = c.SetDeadline(time.Now().Add(reach))
	b := make([]byte, 256)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// ping asks for an echo, by the socket that anybody may have or by a raw one.
func ping(a []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP); err != nil {
			return "", err
		}
	}
	defer func() { _ = unix.Close(fd) }()
	wait := unix.NsecToTimeval(int64(reach))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return "", err
	}
	to := &unix.SockaddrInet4{}
	copy(to.Addr[:], net.ParseIP(a[0]).To4())
	echo := []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0} // type, code, checksum, id, number
	if err := unix.Sendto(fd, echo, 0, to); err != nil {
		return "", err
	}
	n, _, err := unix.Recvfrom(fd, make([]byte, 64), 0)
	return itoa(n), err
}

// vsock connects to a port of a machine below or above this one.
func vsock(a []string) (string, error) {
	const connectTimeout = 6 // SO_VM_SOCKETS_CONNECT_TIMEOUT
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	wait := unix.NsecToTimeval(int64(reach))
	_ = unix.SetsockoptTimeval(fd, unix.AF_VSOCK, connectTimeout, &wait)
	if err := unix.Connect(fd, &unix.SockaddrVM{CID: uint32(number(a[0])), Port: uint32(number(a[1]))}); err != nil {
		return "", err
	}
	b := make([]byte, 256)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}

// through asks the proxy of a variable for an address and reads the greeting: connect or socks, address, variable.
func through(a []string) (string, error) {
	c, err := viaProxy(a[0], a[1], os.Getenv(a[2]))
	if err != nil {
		return "", err
	}
	return hear(c)
}

// lookup asks the resolver that resolv.conf names.
func lookup(a []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*reach)
	defer cancel()
	all, err := net.DefaultResolver.LookupHost(ctx, a[0])
	return strings.Join(all, " "), err
}

// local has a server and a client talk on the run's own loopback: tcp4, tcp6, udp4 or unix with an address.
func local(a []string) (string, error) {
	network, addr, _ := strings.Cut(a[0], "=")
	if strings.HasPrefix(network, "udp") {
		return localDatagram(network, addr)
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	c, err := net.DialTimeout(network, l.Addr().String(), hurry)
	if err != nil {
		return "", err
	}
	return hear(c)
}

func localDatagram(network, addr string) (string, error) {
	s, err := net.ListenPacket(network, addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }()
	go func() {
		b := make([]byte, 16)
		if _, from, err := s.ReadFrom(b); err == nil {
			_, _ = s.WriteTo([]byte("hello"), from)
		}
	}()
	return query([]string{s.LocalAddr().String()})
}

// many4 has so many connections open at once.
func many4(a []string) (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	var ends []net.Conn
	defer func() {
		for _, c := range ends {
			_ = c.Close()
		}
	}()
	for range number(a[0]) {
		c, err := net.DialTimeout("tcp4", l.Addr().String(), hurry)
		if err != nil {
			return itoa(len(ends)), err
		}
		s, err := l.Accept()
		if err != nil {
			return itoa(len(ends)), err
		}
		ends = append(ends, c, s)
	}
	return itoa(len(ends)), nil
}
