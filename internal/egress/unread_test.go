package egress

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// Who reads nothing is given up, also after net/http has cleared the deadline.
func TestUnreadWrites(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	u := &unread{TCPConn: c.(*net.TCPConn), br: bufio.NewReader(c), idle: 100 * time.Millisecond}
	if _, err := u.Write([]byte("a little")); err != nil {
		t.Fatal(err)
	}
	_ = u.SetWriteDeadline(time.Time{})
	done := make(chan error, 1)
	go func() { _, err := u.Write(make([]byte, 64<<20)); done <- err }()
	select {
	case err = <-done:
	case <-time.After(10 * time.Second):
	}
	if err == nil {
		t.Error("it is still written to")
	}
}
