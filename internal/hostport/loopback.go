package hostport

import (
	"errors"
	"net"
	"syscall"
)

// tries is how many ports are looked at for one that is free at both addresses.
const tries = 16

// Loopback takes a port of this machine at both addresses that localhost, and every name below it, leads to: programs
// try one and then the other, so that whoever has one of them is reached by clients of the other. Either both are
// taken or none is. six is nil where the system has no such address. Port 0 is any that is free.
func Loopback(port int) (four, six *net.TCPListener, err error) {
	for range tries {
		four, six, err = both(port)
		if port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return four, six, err
}

func both(port int) (four, six *net.TCPListener, err error) {
	four, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, nil, err
	}
	if at, ok := four.Addr().(*net.TCPAddr); ok {
		port = at.Port
	}
	six, err = net.ListenTCP("tcp6", &net.TCPAddr{IP: net.IPv6loopback, Port: port})
	switch {
	case err == nil:
		return four, six, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT): // where there is no IPv6 nobody has it
		return four, nil, nil
	}
	return nil, nil, errors.Join(err, four.Close())
}
