package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// everyDoor is one of each kind.
func everyDoor() []cell.Listener {
	dns := doorAt("198.18.0.1:53")
	dns.UDP = true
	return []cell.Listener{doorAt("198.18.0.1:3128"), doorAt("0.0.0.0:443"), dns, doorAt("198.18.0.17:8443"), doorAt("[::1]:3128")}
}

// serveDoors answers one call at each of the doors, each where it is expected.
func serveDoors(t *testing.T, doors []*os.File, kinds []cell.Listener) <-chan map[string]string {
	t.Helper()
	done := make(chan map[string]string, 1)
	go func() {
		heard := map[string]string{}
		for i, d := range doors {
			fd := int(d.Fd())
			_ = unix.SetNonblock(fd, false)
			what, at, err := answer(fd, kinds[i].UDP)
			heard[what] = at + " " + name(err)
		}
		done <- heard
	}()
	return done
}

// Whoever has the descriptors serves the room's network from outside of it. There
// is nothing else: not the machine's own network, not its loopback.
func TestDoors(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		outside, port := listener(t)
		defer func() { _ = unix.Close(outside) }()
		r := plain(workspace(t, w))
		r.Range, r.Listeners = synthetic, everyDoor()
		h, doors := inhabit(t, w, r)
		heard := serveDoors(t, doors, r.Listeners)
		out, _ := h.runs(insideSpec("dial",
			"tcp/198.18.0.1:3128", "tcp/198.18.77.5:443", "udp/198.18.0.1:53", "tcp/198.18.0.17:8443", "tcp/[::1]:3128",
			"tcp/198.18.0.9:9999", "tcp/127.0.0.1:"+port, "tcp/198.20.0.1:443", "tcp/8.8.8.8:443", "udp/8.8.8.8:53", "tcp/10.0.0.1:443",
			"tcp/169.254.169.254:80", "tcp/[2001:db8::1]:443", "udp/224.0.0.1:9"))
		want := `tcp/198.18.0.1:3128 answer ok
tcp/198.18.77.5:443 answer ok
udp/198.18.0.1:53 answer ok
tcp/198.18.0.17:8443 answer ok
tcp/[::1]:3128 answer ok
tcp/198.18.0.9:9999  ECONNREFUSED
tcp/127.0.0.1:` + port + `  ECONNREFUSED
tcp/198.20.0.1:443  ENETUNREACH
tcp/8.8.8.8:443  ENETUNREACH
udp/8.8.8.8:53  ENETUNREACH
tcp/10.0.0.1:443  ENETUNREACH
tcp/169.254.169.254:80  ENETUNREACH
tcp/[2001:db8::1]:443  ENETUNREACH
udp/224.0.0.1:9  ENETUNREACH
`
		if out != want {
			t.Errorf("%s", out)
		}
		got := <-heard
		for what, at := range map[string]string{
			"hello from tcp/198.18.0.1:3128": "198.18.0.1:3128 ok", "hello from tcp/198.18.77.5:443": "198.18.77.5:443 ok",
			"hello from tcp/198.18.0.17:8443": "198.18.0.17:8443 ok", "hello from tcp/[::1]:3128": "[::1]:3128 ok",
		} {
			if got[what] != at {
				t.Errorf("%s arrived at %q", what, got[what])
			}
		}
		if !strings.HasPrefix(got["hello from udp/198.18.0.1:53"], "198.18.0.1:") {
			t.Errorf("%q", got)
		}
	})
}

// listener listens on the machine's own loopback.
func listener(t *testing.T) (fd int, port string) {
	t.Helper()
	fd, addr, err := socketFor("tcp/127.0.0.1:0")
	if err == nil {
		err = unix.Bind(fd, addr)
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	if err == nil {
		addr, err = unix.Getsockname(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd, strings.TrimPrefix(text(addr), "127.0.0.1:")
}

// One interface, no door that the program could take for itself, and servers of
// its own where it likes.
func TestNetwork(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		r := plain(workspace(t, w))
		r.Range, r.Listeners = synthetic, everyDoor()
		out := inRoom(t, w, r, "tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/net/route; "+mirror+" inside:serve "+
			"tcp/127.0.0.1:8080 tcp/[::1]:8080 tcp/0.0.0.0:9090 tcp/198.18.0.2:3128 tcp/198.18.0.1:3128 tcp/0.0.0.0:3128 tcp/0.0.0.0:443 "+
			"tcp/127.0.0.1:80 udp/198.18.0.1:53")
		want := `    lo
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT                                                       
tcp/127.0.0.1:8080 ok
tcp/[::1]:8080 ok
tcp/0.0.0.0:9090 ok
tcp/198.18.0.2:3128 ok
tcp/198.18.0.1:3128 EADDRINUSE
tcp/0.0.0.0:3128 EADDRINUSE
tcp/0.0.0.0:443 EACCES
tcp/127.0.0.1:80 EACCES
udp/198.18.0.1:53 EACCES
`
		if out != want {
			t.Errorf("%q\n%q", out, want)
		}
	})
}

// Without doors and range there is loopback, and without a daemon's ear a door
// that it closed is closed.
func TestNoDoors(t *testing.T) {
	r := plain(workspace(t, me))
	r.Listeners = []cell.Listener{doorAt("127.0.0.1:3128")}
	h, doors := inhabit(t, me, r)
	cell.CloseAll(doors)
	out, _ := h.runs(insideSpec("dial", "tcp/127.0.0.1:3128", "tcp/198.18.0.1:443"))
	if out != "tcp/127.0.0.1:3128  ECONNREFUSED\ntcp/198.18.0.1:443  ENETUNREACH\n" {
		t.Errorf("%q", out)
	}
}
