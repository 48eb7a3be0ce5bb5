package rpc_test

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/rpc"
)

// brief is how long anything is waited for in a brief world; what has not ended after
// late never does, however busy the machine is.
const (
	brief = 400 * time.Millisecond
	late  = 30 * time.Second
)

// newBriefWorld is a world that waits for nobody.
func newBriefWorld(t testing.TB, requests int) *world {
	t.Helper()
	w := &world{shift: &atomic.Int64{}, onPair: func() {}}
	w.bench = newBench(t, func(c rpc.Config) (*rpc.Server, error) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(w.shift.Load())) }
		return rpc.NewBrief(c, brief, requests)
	})
	w.registry.OnEnd(w.server.EndCredential)
	w.openAuthority()
	w.openConsole()
	w.openRemote()
	return w
}

// Kinds and flags of HTTP/2 frames.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameRoom, frameMore = 0, 1, 3, 4, 6, 8, 9

	flagEnd, flagAck, flagWhole = 1, 1, 4

	hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// fields writes header fields out in full, as HTTP/2 has them.
func fields(pairs ...string) string {
	var b strings.Builder
	for i, s := range pairs {
		if i%2 == 0 {
			b.WriteByte(0)
		}
		if n := len(s); n < 127 {
			b.WriteByte(byte(n))
		} else {
			b.WriteByte(127)
			for n -= 127; ; n >>= 7 {
				if n < 128 {
					b.WriteByte(byte(n))
					break
				}
				b.WriteByte(byte(n) | 128)
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

// call is the header of a call.
func (d *device) call(procedure, kind string, more ...string) string {
	return fields(append([]string{
		":method", "POST", ":scheme", "https", ":authority", strings.TrimPrefix(d.base, "https://"), ":path", procedure, "content-type", kind,
	}, more...)...)
}

// hand is a connection to the devices' door whose frames are made by hand.
type hand struct {
	t   testing.TB
	raw net.Conn
	*tls.Conn
	frames chan got // what the daemon sent; closed at its end
	why    error    // of the end
}

// got is a frame of the daemon's.
type got struct {
	kind, flags byte
	stream      uint32
	payload     string
}

// dial connects from an address of this machine; nothing is said yet.
func (w *world) dial(from string) net.Conn {
	w.t.Helper()
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(w.t.Context(), "tcp", w.remote)
	w.must(err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// hand shakes hands as a device.
func (w *world) hand(d *device, from string) *hand {
	w.t.Helper()
	raw := w.dial(from)
	h := &hand{t: w.t, raw: raw, Conn: tls.Client(raw, d.conf), frames: make(chan got, 64)}
	w.must(h.HandshakeContext(w.t.Context()))
	return h
}

// send sends bytes; that the daemon has hung up meanwhile is seen at the reading.
func (h *hand) send(parts ...string) {
	h.t.Helper()
	if _, err := io.WriteString(h.Conn, strings.Join(parts, "")); err != nil && !hungUp(err) {
		h.t.Fatal(err)
	}
}

func hungUp(err error) bool {
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

// listen reads frames until the daemon hangs up, and answers pings if it is told
// to: a client that lives and is only slow.
func (h *hand) listen(lives bool) {
	go func() {
		defer close(h.frames)
		for {
			var f got
			if f, h.why = h.frame(); h.why != nil {
				return
			}
			if lives && f.kind == framePing && f.flags&flagAck == 0 {
				_, _ = io.WriteString(h.Conn, frame(framePing, flagAck, 0, f.payload)) // or it has hung up
			}
			h.frames <- f
		}
	}()
}

// frame reads one.
func (h *hand) frame() (got, error) {
	head := make([]byte, 9)
	if _, err := io.ReadFull(h.Conn, head); err != nil {
		return got{}, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(append([]byte{0}, head[:3]...)))
	_, err := io.ReadFull(h.Conn, payload)
	return got{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:]), payload: string(payload)}, err
}

// next returns the next frame about a stream, or says that there is none in time.
func (h *hand) next(stream uint32, within time.Duration) (f got, open bool) {
	h.t.Helper()
	for over := time.After(within); ; {
		select {
		case f, open = <-h.frames:
			if !open || f.stream == stream {
				return f, open
			}
		case <-over:
			h.t.Fatalf("no frame of stream %d within %v", stream, within)
		}
	}
}

// status is the status that a header block begins with.
func (f got) status() string {
	indexed := map[byte]string{0x88: "200", 0x89: "204", 0x8c: "400", 0x8d: "404", 0x8e: "500"}
	block := f.payload
	switch {
	case f.kind != frameHeaders || block == "":
		return fmt.Sprintf("frame %d", f.kind)
	case len(block) >= 5 && block[0] >= 0x48 && block[0] <= 0x4e && block[1] == 3:
		return block[2:5]
	}
	if s, ok := indexed[block[0]]; ok {
		return s
	}
	return fmt.Sprintf("%x", block[:min(8, len(block))])
}

// ended waits until the daemon has hung up and fails if it does not in time.
func ended(t testing.TB, what string, c net.Conn, within time.Duration) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection is still there after %v", what, within)
	}
}
