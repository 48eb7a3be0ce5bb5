package egress

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// serveCount is a server at a port that counts the bytes it gets.
func serveCount(t testing.TB, w *world, port int) func() int64 {
	t.Helper()
	var n atomic.Int64
	w.at(port, serve(t, func(c *net.TCPConn) {
		got, _ := io.Copy(io.Discard, c)
		n.Add(got)
	}))
	return n.Load
}
