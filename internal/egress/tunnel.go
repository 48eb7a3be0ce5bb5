package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"palyra"
	"palyra/internal/egress/sniff"
)

// tunnel is a connection between a client inside and a server outside.
type tunnel struct {
	*Session
	client *stream
	up     *net.TCPConn
	flow   *flow
	permit permit
	active *activity

	back  chan struct{} // not nil: bytes from the server are passed on; closed when that has ended
	heard chan struct{} // closed when it is known whether the server asks for a second ClientHello
	again atomic.Bool   // the server asks for a second ClientHello
	spoke bool          // the server sent something; to be read after back is closed
}

// tunnel connects a client with its permitted server, until both have ended. With a named permit,
// the client's first bytes must fit the name.
func (s *Session) tunnel(c *stream, up *net.TCPConn, f *flow, p permit) {
	defer c.release()
	t := &tunnel{Session: s, client: c, up: up, flow: f, permit: p, active: s.activity()}
	defer t.end()
	if t.opened() {
		return
	}
	if p.check && !t.checked() {
		return
	}
	t.answer()
	t.forward()
}

// checked examines the client's first bytes and reports whether it may go on.
func (t *tunnel) checked() bool {
	kind, err := t.listen()
	if err != nil {
		return false
	}
	switch kind {
	case sniff.Secure:
		return t.shake()
	case sniff.Web:
		if t.takeBack() {
			t.relay()
		}
		return false // everything was relayed
	}
	first, _ := t.client.br.Peek(t.client.br.Buffered())
	if t.named() && len(first) > 0 && !(t.permit.port == 443 && sniff.IsSSH(first)) {
		t.mismatch("", "it speaks neither TLS nor HTTP")
		return false
	}
	return t.watched()
}

// watched passes on the client's first line, and cuts the connection if it turns out to be a
// request after all: the server then has only a part of it.
func (t *tunnel) watched() bool {
	t.answer()
	for w := (sniff.Watch{}); ; {
		b, _ := t.client.br.Peek(t.client.br.Buffered())
		switch {
		case w.Sees(b):
			t.mismatch("", "it is a request that begins like something else")
			reset(t.up)
			return false
		case w.Whole:
			return true
		case len(b) > 0 && !t.pass(len(b)):
			t.cut()
			return false
		}
		switch err := t.next(); {
		case err == nil:
			t.active.touch()
		case errors.Is(err, io.EOF): // forward sees it, too
			return true
		default:
			t.cut()
			return false
		}
	}
}

// next waits for more bytes of the client.
func (t *tunnel) next() error {
	for {
		t.client.within(t.active.look)
		if _, err := t.client.more(0); !errors.Is(err, os.ErrDeadlineExceeded) || t.active.over() {
			return err
		}
	}
}

// named reports whether clients at the port begin by naming the host.
func (t *tunnel) named() bool { return t.permit.port == 80 || t.permit.port == 443 }

// listen waits until the client has sent enough to tell which protocol it speaks. A server that
// speaks first is passed on: at once, or at ports where clients speak first after a short time.
func (t *tunnel) listen() (sniff.Speech, error) {
	if t.named() {
		t.client.within(t.guard.times.quiet)
	} else {
		t.answer()
		t.client.within(t.active.look)
	}
	for have := 0; ; {
		b, err := t.client.more(have)
		switch {
		case err == nil && have == 0:
			t.client.within(t.guard.times.head)
		case err == nil:
		case have == 0 && errors.Is(err, os.ErrDeadlineExceeded) && !t.active.over():
			t.answer()
			t.client.within(t.active.look)
			continue
		case errors.Is(err, io.EOF) && (have == 0 || !t.named()):
			return sniff.Opaque, nil // the client only listens, or has sent everything
		case have > 0:
			t.mismatch("", "it does not say in time, and in few enough bytes, what it is")
			return sniff.Unclear, err
		default:
			return sniff.Unclear, err
		}
		if kind := sniff.Classify(b); kind != sniff.Unclear {
			return kind, nil
		}
		have = len(b)
	}
}

// mismatch refuses a connection that was let through by one name and is for another, and sends a
// TLS client an alert where it can.
func (t *tunnel) mismatch(name, why string) {
	other := t.permit.target
	if name != "" {
		other.host = host{name: name}
	}
	t.refused(t.permit.door, other, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s: %s", t.permit.target, why))
	const fatal, accessDenied = 2, 49
	if first, _ := t.client.br.Peek(t.client.br.Buffered()); sniff.Classify(first) == sniff.Secure {
		_, _ = t.client.Write([]byte{sniff.RecordAlert, sniff.RecordMajor, 1, 0, 2, fatal, accessDenied})
		return
	}
	reset(t.client.TCPConn)
}

// answer begins to pass on the server's bytes.
func (t *tunnel) answer() {
	if t.back != nil {
		return
	}
	t.back, t.heard = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(t.back)
		if err := t.hear(); err != nil && !t.active.stopped.Load() {
			t.cut()
		}
	}()
}

// hear passes on the server's bytes.
func (t *tunnel) hear() error {
	if err := t.hearFirst(); err != nil {
		if errors.Is(err, io.EOF) {
			return t.client.CloseWrite()
		}
		return err
	}
	return t.guard.buffers.pipe(t.client.TCPConn, t.up, &t.flow.in, t.active)
}

// hearFirst passes on the server's first bytes until it is known whether they ask for a second ClientHello.
func (t *tunnel) hearFirst() error {
	chunk := t.guard.buffers.chunk()
	defer t.guard.buffers.give(chunk)
	buf, have := *chunk, 0
	for {
		n, err := t.up.Read(buf[have:])
		if n > 0 {
			t.spoke = true
			if _, err := t.client.Write(buf[have : have+n]); err != nil {
				return err
			}
			t.flow.in.Add(int64(n))
			t.active.touch()
			have += n
			if again, known := sniff.AsksAgain(buf[:have]); known {
				t.again.Store(again)
				close(t.heard)
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// takeBack stops passing on the server's bytes, so that they can be read as answers to requests. It
// fails if the server has already spoken.
func (t *tunnel) takeBack() bool {
	if t.back == nil {
		return true
	}
	t.active.stop(t.up)
	<-t.back
	_ = t.up.SetReadDeadline(time.Time{})
	t.back = nil
	return !t.spoke
}

// forward passes on the client's bytes until they end.
func (t *tunnel) forward() {
	if n := t.client.br.Buffered(); n > 0 && !t.pass(n) {
		t.cut()
		return
	}
	t.client.release()
	if err := t.guard.buffers.pipe(t.up, t.client.TCPConn, &t.flow.out, t.active); err != nil {
		t.cut()
	}
}

// cut ends both sides at once, with a reset.
func (t *tunnel) cut() {
	reset(t.client.TCPConn)
	reset(t.up)
}

// end waits for the server's side, which ends at the latest when both are closed.
func (t *tunnel) end() {
	if t.back == nil {
		return
	}
	if t.client.br != nil { // the connection was refused
		_ = t.up.Close()
	}
	<-t.back
}
