package egress

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// The guard's cost as ratios to the same work without it, in one run, taken in
// turns so that a busy machine slows both.
func BenchmarkGuard(b *testing.B) {
	g, w := newGuard(b, Config{MaxFlows: 16})
	at := echo(b, "")
	w.at(7000, at)
	secure, ca := site(b, "good.example")
	w.at(443, secure.Listener.Addr())
	e := open(b, g, w, "good.example:7000", "good.example:443")
	webDoor := e.door("good.example", 443)
	handshake := map[string]func() *net.TCPConn{
		"direct":  func() *net.TCPConn { return dialTo(b, webDoor) },
		"connect": func() *net.TCPConn { return lean(e, "good.example:443") },
	}
	door := e.door("good.example", 7000)
	through := map[string]func() *net.TCPConn{
		"direct":  func() *net.TCPConn { return dialTo(b, door) },
		"connect": func() *net.TCPConn { return lean(e, "good.example:7000") },
	}
	straight := func() *net.TCPConn { return dialTo(b, at.String()) }
	for name, dial := range through {
		b.Run("round_trip/"+name, func(b *testing.B) {
			plain, guarded := straight(), dial()
			ratio(b, func() { ping(b, plain) }, func() { ping(b, guarded) })
		})
		b.Run("connect/"+name, func(b *testing.B) {
			once := func(dial func() *net.TCPConn) func() {
				return func() {
					c := dial()
					ping(b, c)
					reset(c) // or the ports run out
				}
			}
			ratio(b, once(straight), once(dial))
		})
		b.Run("connect_tls/"+name, func(b *testing.B) {
			once := func(dial func() *net.TCPConn) func() {
				return func() {
					c := dial()
					t := tls.Client(c, &tls.Config{RootCAs: ca.pool, ServerName: "good.example"})
					if err := t.Handshake(); err != nil {
						b.Fatal(err)
					}
					reset(c)
				}
			}
			ratio(b, once(func() *net.TCPConn { return dialTo(b, secure.Listener.Addr().String()) }), once(handshake[name]))
		})
		b.Run("throughput/"+name, func(b *testing.B) {
			plain, guarded := straight(), dial()
			b.SetBytes(2 * volume)
			ratio(b, func() { pour(b, plain) }, func() { pour(b, guarded) })
		})
	}
}

// lean asks the proxy for a tunnel without costs of its own.
func lean(e *bench, to string) *net.TCPConn {
	c := dialTo(e, e.at[0].String())
	if _, err := io.WriteString(c, "CONNECT "+to+" HTTP/1.1\r\nHost: "+to+"\r\n"+e.authorization()+"\r\n"); err != nil {
		e.Fatal(err)
	}
	buf := make([]byte, 256)
	if n, err := c.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200 ") {
		e.Fatal(err, string(buf[:n]))
	}
	return c
}

// ratio reports how much longer the second takes, by the medians.
func ratio(b *testing.B, plain, guarded func()) {
	b.Helper()
	var times [2][]time.Duration
	for range 3 {
		plain()
		guarded()
	}
	for b.Loop() {
		for i, f := range []func(){plain, guarded} {
			start := time.Now()
			f()
			times[i] = append(times[i], time.Since(start))
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	b.ReportMetric(float64(times[1][len(times[1])/2])/float64(times[0][len(times[0])/2]), "ratio")
}

func ping(b *testing.B, c net.Conn) {
	b.Helper()
	buf := []byte{0x7f}
	if _, err := c.Write(buf); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(c, buf); err != nil {
		b.Fatal(err)
	}
}

const volume = 32 << 20

// pour sends and takes back a lot.
func pour(b *testing.B, c *net.TCPConn) {
	b.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	done := make(chan error, 1)
	go func() {
		buf := make([]byte, 256<<10)
		copy(buf, "x\n") // up to the first line's end it is looked at
		for left := volume; left > 0; left -= len(buf) {
			if _, err := c.Write(buf); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	if _, err := io.CopyN(io.Discard, c, volume); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
