package egress

import (
	"errors"
	"time"

	"palyra/internal/egress/sniff"
)

// shake checks and passes on the ClientHello, and a second one if the server asks for it: that
// could name another host.
func (t *tunnel) shake() bool {
	if !t.greet() {
		return false
	}
	t.answer()
	select {
	case <-t.heard:
	case <-t.back:
	}
	return !t.again.Load() || t.greetAgain()
}

// greet reads one ClientHello.
func (t *tunnel) greet() bool {
	for have := 0; ; {
		b, err := t.client.more(have)
		if err != nil {
			return false
		}
		h, size, err := sniff.ParseHello(b)
		switch {
		case errors.Is(err, sniff.ErrMore):
			have = len(b)
			continue
		case err != nil:
			t.mismatch("", "its TLS ClientHello cannot be read")
			return false
		}
		return t.fits(h) && t.pass(size)
	}
}

// fits compares a ClientHello with the name that was let through.
func (t *tunnel) fits(h sniff.Hello) bool {
	switch name, err := parseHost(h.Name); {
	case h.Hidden:
		t.mismatch("", "its TLS ClientHello hides the name (ECH)")
	case h.Names == 0:
		t.mismatch("", "its TLS ClientHello does not say for which host")
	case err != nil:
		t.mismatch("", "the name in its TLS ClientHello cannot be read")
	case name != t.permit.host:
		t.mismatch(name.String(), "its TLS ClientHello is for another host")
	default:
		return true
	}
	return false
}

// greetAgain passes on the messages that may come before a second ClientHello, and then checks that.
func (t *tunnel) greetAgain() bool {
	t.client.within(t.guard.times.head)
	for have := 0; ; {
		b, err := t.client.more(have)
		if err != nil {
			return false
		}
		kind, body, err := sniff.Record(b)
		switch {
		case kind == sniff.RecordHandshake:
			return t.greet()
		case errors.Is(err, sniff.ErrMore):
			have = len(b)
			continue
		case err != nil, kind != sniff.RecordCipher && kind != sniff.RecordAlert && kind != sniff.RecordData:
			t.mismatch("", "its TLS records cannot be read")
			return false
		case !t.pass(sniff.RecordHead + len(body)):
			return false
		}
		have = 0
	}
}

// pass passes on the client's next n bytes.
func (t *tunnel) pass(n int) bool {
	b, _ := t.client.br.Peek(n)
	_ = t.up.SetWriteDeadline(time.Now().Add(t.active.idle))
	sent, err := t.up.Write(b)
	t.flow.out.Add(int64(sent))
	_, _ = t.client.br.Discard(n)
	return err == nil && sent == n
}
