package sandboxtest

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// network: nobody is in a run's network but itself and what was let in.
func network(t *testing.T, b *bench) {
	rows, heard := b.reachable(t)
	alone := b.has(t, ownNetwork)
	b.denyAs(t, order{}, uncontrolled(rows))
	if alone && !t.Failed() {
		b.denyAs(t, order{change: func(j *sandbox.Job) { j.Unix = true }}, uncontrolled(rows))
	}
	if n := heard.Load(); n != 0 {
		t.Errorf("the host heard %d datagrams of a run", n)
	}
	b.controls(t, rows)
	if heard.Load() == 0 {
		t.Error("control: the host heard no datagram of the probe outside either")
	}
	if alone && !t.Failed() {
		b.allow(t, "local tcp4=127.0.0.1:0", "local tcp6=[::1]:0", "local udp4=127.0.0.1:0", "local tcp4=0.0.0.0:0", "many4 100",
			"socket netlink raw 0")
		doors(t, b)
	}
}

// uncontrolled returns the attempts without controls, which are made once and later, because they can be heard.
func uncontrolled(all []denial) []denial {
	out := make([]denial, len(all))
	for i, d := range all {
		d.control = unshown
		out[i] = d
	}
	return out
}

// reachable returns attempts on everything that the host and its neighbours listen on, and a count
// of the datagrams that arrive.
func (b *bench) reachable(t *testing.T) ([]denial, *atomic.Int64) {
	t.Helper()
	tcp := port(b.greet(t, "tcp", ":0"))
	udp, heard := b.answers(t)
	at := []string{"127.0.0.1", "::ffff:127.0.0.1"}
	if _, err := net.ResolveTCPAddr("tcp6", "[::1]:0"); err == nil {
		at = append(at, "::1")
	}
	addrs, err := net.InterfaceAddrs()
	check(t, err)
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			at = append(at, ip.String())
		}
	}
	var rows []denial
	for _, ip := range at {
		rows = append(rows,
			denial{"connect to the host at " + ip, "dial tcp " + net.JoinHostPort(ip, tcp), "", works},
			denial{"send a datagram to the host at " + ip, "query " + net.JoinHostPort(ip, udp), "", works})
		if strings.Count(ip, ".") == 3 && !strings.Contains(ip, ":") && !strings.HasPrefix(ip, "127.") {
			rows = append(rows, denial{"ping the host at " + ip, "ping " + ip, "", worksRoot})
		}
	}
	rows = append(rows,
		denial{"connect to the host by many paths", "dial mptcp " + net.JoinHostPort(at[0], tcp), "", works},
		denial{"connect to what knows the machine's secrets", "dial tcp 169.254.169.254:80", "", unshown}, // it is not for a test to have
		denial{"send to everybody", "query 255.255.255.255:" + udp, "", unshown},
		denial{"send to a group", "query 224.0.0.1:" + udp, "", unshown},
		denial{"ask the world for a name", "lookup example.com", "", unshown},
		denial{"reach a guard that was not opened", "dial tcp 198.18.0.1:3128", "", unshown},
	)
	rows = append(rows, neighbours(t)...)
	return append(rows, b.machines(t)...), heard
}

// neighbours are others on the host's networks.
func neighbours(t *testing.T) []denial {
	t.Helper()
	at := strings.Fields(os.Getenv(cableVar))
	if len(at) != 2 {
		t.Log("UNPROVEN HERE: only root can make a neighbour")
		return nil
	}
	return []denial{
		{"connect to a neighbour", "dial tcp " + at[0], "", works},
		{"connect to the host's end of a cable", "dial tcp " + at[1], "", works},
		{"ping a neighbour", "ping " + at[0][:strings.LastIndexByte(at[0], ':')], "", worksRoot},
	}
}

// machines returns attempts on the hypervisor's and guests' sockets.
func (b *bench) machines(t *testing.T) []denial {
	t.Helper()
	rows := []denial{{"connect to the machine below", "vsock 2 1024", "", unshown}} // there may be none
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Logf("UNPROVEN HERE: the kernel has no sockets between machines: %v", err)
		return rows
	}
	f := os.NewFile(uintptr(fd), "vsock")
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: unix.VMADDR_PORT_ANY}); err != nil {
		t.Logf("UNPROVEN HERE: nobody can listen between machines: %v", err)
		return rows
	}
	check(t, unix.Listen(fd, 4))
	sa, err := unix.Getsockname(fd)
	check(t, err)
	rc, err := f.SyscallConn()
	check(t, err)
	go func() {
		_ = rc.Read(func(fd uintptr) bool { // until it is closed
			if c, _, err := unix.Accept(int(fd)); err == nil {
				_, _ = unix.Write(c, []byte(b.secret))
				_ = unix.Close(c)
			}
			return false
		})
	}()
	op := "vsock 1 " + strconv.Itoa(int(sa.(*unix.SockaddrVM).Port))
	row := denial{"connect to the host between machines", op, "", works}
	if v := b.outsideAs(t, b.who, []string{op})[0]; v.Errno != "" {
		t.Logf("UNPROVEN HERE: nobody answers between machines outside either: %s", v.Error)
		row.control = unshown
	}
	return append(rows, row)
}

// answers is a host that answers datagrams and counts them.
func (b *bench) answers(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	c, err := net.ListenPacket("udp", ":0")
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	var n atomic.Int64
	go func() {
		buf := make([]byte, 64)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			n.Add(1)
			_, _ = c.WriteTo([]byte(b.secret), from)
		}
	}()
	return strconv.Itoa(c.LocalAddr().(*net.UDPAddr).Port), &n
}

// doors lead out of one run's network, and only they do.
func doors(t *testing.T, b *bench) {
	o := order{argv: []string{b.probe, "stubborn", "door"}, change: func(j *sandbox.Job) {
		j.Doors = []cell.Listener{
			{Addr: netip.MustParseAddrPort("198.18.0.1:3128")},
			{Addr: netip.MustParseAddrPort("198.18.0.1:53"), UDP: true},
			{Addr: netip.MustParseAddrPort("0.0.0.0:80")},
			{Addr: netip.MustParseAddrPort("198.18.0.16:8443")},
		}
		j.Open = func(files []*os.File) error { b.attend(t, files); return nil }
	}}
	got := b.allowAs(t, o, "dial tcp 198.18.0.1:3128", "query 198.18.0.1:53", "dial tcp 198.18.77.7:80", "dial tcp 198.18.0.16:8443",
		"local tcp4=127.0.0.1:0")
	for i, want := range []string{"door 0", "door 1", "door 2", "door 3", "hello"} {
		if got[i].Got != want {
			t.Errorf("%s: got %q, want %q", got[i].Op, got[i].Got, want)
		}
	}
	b.denyAs(t, o, []denial{
		{"use a port that is no door", "dial tcp 198.18.0.1:81", "", unshown},
		{"use an address that is no door", "dial tcp 198.18.0.17:8443", "", unshown},
		{"take a door over", "local tcp4=198.18.0.1:3128", "", unshown},
		{"take a door over on all addresses", "local tcp4=0.0.0.0:3128", "", unshown},
	})
	stays := b.start(t, o)
	stays.ready(t)
	if v := b.inside(t, []string{"dial tcp 198.18.0.1:3128"})[0]; v.Errno == "" {
		t.Errorf("another run came through the door: %q", v.Got)
	}
	stays.Stop("enough", 0)
	stays.wait(t)
}

// attend answers at doors until the test ends.
func (b *bench) attend(t *testing.T, files []*os.File) {
	for i, f := range files {
		text := []byte("door " + strconv.Itoa(i))
		if l, err := net.FileListener(f); err == nil {
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_ = c.SetDeadline(time.Now().Add(patience))
					_, _ = c.Write(text)
					_ = c.Close()
				}
			}()
		} else if p, err := net.FilePacketConn(f); err == nil {
			t.Cleanup(func() { _ = p.Close() })
			go func() {
				for buf := make([]byte, 64); ; {
					_, from, err := p.ReadFrom(buf)
					if err != nil {
						return
					}
					_, _ = p.WriteTo(text, from)
				}
			}()
		} else {
			t.Errorf("door %d is no socket: %v", i, err)
		}
		_ = f.Close()
	}
}
