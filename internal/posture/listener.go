package posture

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// listener is planted. It says the token to everyone who connects, one after the other, and counts them.
type listener struct {
	net.Listener
	network, address, port string
	done                   chan struct{}

	mu     sync.Mutex
	count  int
	expect int // of them our own
}

// plant listens and answers until close.
func plant(network, address, token string) (*listener, error) {
	ln, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	l := &listener{Listener: ln, network: network, address: ln.Addr().String(), done: make(chan struct{})}
	if i := strings.LastIndexByte(l.address, ':'); network == "tcp" {
		l.port = l.address[i+1:]
	}
	go l.serve(token)
	return l, nil
}

func (l *listener) serve(token string) {
	defer close(l.done)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.count++
		l.mu.Unlock()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, token)
		_ = c.Close()
	}
}

// greet connects from outside and hears the token. Who connected earlier has been
// counted by then: they are taken in order.
func (l *listener) greet(token string) error {
	c, err := net.DialTimeout(l.network, l.address, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(io.LimitReader(c, 256))
	if err == nil && string(b) != token {
		err = errors.New("somebody else answers")
	}
	l.mu.Lock()
	l.expect++
	l.mu.Unlock()
	return err
}

// visited says whether somebody but us connected.
func (l *listener) visited(token string) string {
	if err := l.greet(token); err != nil {
		return "the listener does not answer any more: " + err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.count - l.expect; n > 0 {
		l.expect = l.count // of the next probe
		return fmt.Sprintf("the listener was connected to %d times", n)
	}
	return ""
}

func (l *listener) close() error {
	err := l.Close()
	<-l.done
	return err
}
