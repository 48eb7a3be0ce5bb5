package hostport

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// One address of a port is never had without the other.
func TestLoopback(t *testing.T) {
	four, six, err := Loopback(0)
	if err != nil {
		t.Fatal(err)
	}
	port := four.Addr().(*net.TCPAddr).Port
	if six == nil {
		_ = four.Close()
		t.Skip("UNPROVEN HERE: both addresses: this machine has no ::1")
	}
	if p := six.Addr().(*net.TCPAddr).Port; p != port {
		t.Errorf("%d and %d", port, p)
	}
	for _, left := range []*net.TCPListener{four, six} { // one of the two is somebody else's
		other := six
		if left == six {
			other = four
		}
		_ = other.Close()
		if a, b, err := Loopback(port); !errors.Is(err, syscall.EADDRINUSE) || a != nil || b != nil {
			t.Errorf("%s is taken: %v %v %v", left.Addr(), a, b, err)
		}
		again, err := net.Listen("tcp", other.Addr().String())
		if err != nil {
			t.Fatalf("the other address was kept: %v", err)
		}
		_ = again.Close()
		_ = left.Close()
		if left == four {
			if four, six, err = Loopback(port); err != nil {
				t.Fatalf("%s: %v", strconv.Itoa(port), err)
			}
		}
	}
}
