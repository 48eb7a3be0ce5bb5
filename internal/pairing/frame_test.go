package pairing

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestFrameRoundTrip(t *testing.T) {
	for _, m := range []message{
		{Type: typeHello, Method: methodPIN, Name: "laptop", Share: []byte{1, 2, 3}},
		{Type: typeWelcome, StateID: "s", Authorities: [][]byte{{1}, {2, 3}}, Tag: []byte{9}},
		{Type: typeError, Reason: palyra.ReasonPairingLocked, AfterMS: 12},
		{Type: typeAck},
	} {
		var b bytes.Buffer
		if err := writeFrame(&b, m); err != nil {
			t.Fatal(err)
		}
		got, err := readFrame(&b)
		if diff := cmp.Diff(m, got); err != nil || diff != "" || b.Len() != 0 {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

func TestBadFrames(t *testing.T) {
	for name, raw := range map[string][]byte{
		"nothing":       {},
		"half a length": {0, 0},
		"empty":         {0, 0, 0, 0},
		"too long":      frame(`{"type":"` + strings.Repeat("a", maxFrame) + `"}`),
		"huge":          {0xff, 0xff, 0xff, 0xff, '{'},
		"cut":           frame(`{"type":"ack"}`)[:10],
		"no JSON":       frame("hello"),
		"no object":     frame(`["ack"]`),
		"no type":       frame(`{}`),
		"null":          frame(`null`),
		"two":           frame(`{"type":"ack"}{"type":"ack"}`),
		"unknown field": frame(`{"type":"ack","x":1}`),
		"wrong kind":    frame(`{"type":"hello","share":7}`),
		"bad base64":    frame(`{"type":"hello","share":"*"}`),
		"deep":          frame(`{"type":` + strings.Repeat("[", 8000)),
	} {
		if m, err := readFrame(bytes.NewReader(raw)); err == nil || m.Type != "" {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if err := writeFrame(io.Discard, message{Type: typeIssued, Certificate: make([]byte, maxFrame)}); !errors.Is(err, errFrameSize) {
		t.Errorf("a long message is sent: %v", err)
	}
}

// A length that lies costs no memory beyond the limit.
func TestFrameLengthIsNotBelieved(t *testing.T) {
	r := &counting{}
	if _, err := readFrame(io.MultiReader(bytes.NewReader([]byte{0x7f, 0xff, 0xff, 0xff}), r)); !errors.Is(err, errFrameSize) || r.n != 0 {
		t.Errorf("%v after %d bytes", err, r.n)
	}
}

type counting struct{ n int }

func (c *counting) Read(b []byte) (int, error) { c.n += len(b); return len(b), nil }

func FuzzFrame(f *testing.F) {
	f.Add(frame(`{"type":"hello","method":"pin","name":"x","share":"AAAA"}`))
	f.Add(frame(`{"type":"error","reason_code":"pairing_locked","after_ms":1}`))
	f.Add([]byte{0, 0, 0, 1, '{'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := readFrame(bytes.NewReader(raw))
		if err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(raw))
		if n == 0 || n > maxFrame || m.Type == "" || !json.Valid(raw[4:4+n]) {
			t.Fatalf("%q is accepted as %+v", raw, m)
		}
		var b bytes.Buffer
		if err := writeFrame(&b, m); err != nil {
			if errors.Is(err, errFrameSize) { // our spelling of it may be longer
				return
			}
			t.Fatal(err)
		}
		again, err := readFrame(&b)
		if diff := cmp.Diff(m, again); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
		// Whatever the other side calls its trouble, the words are ours.
		e := wireError(m.Reason, m.AfterMS)
		if e.Text != problem(e.Reason).Text || e.After < 0 || e.After > time.Hour {
			t.Fatalf("told %+v", e)
		}
	})
}

func TestReceive(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want palyra.Reason
	}{
		"the one that is due": {`{"type":"ack"}`, ""},
		"another":             {`{"type":"hello"}`, palyra.ReasonPairingBroken},
		"an error":            {`{"type":"error","reason_code":"pairing_locked"}`, palyra.ReasonPairingLocked},
		"an unknown error":    {`{"type":"error","reason_code":"do what I say"}`, palyra.ReasonPairingBroken},
		"rubbish":             {`]`, palyra.ReasonPairingBroken},
	} {
		a, b := net.Pipe()
		go func() { _, _ = b.Write(frame(c.body)) }()
		_, err := wire{conn: a, patience: time.Second}.receive(time.Second, typeAck)
		if got := reason(err); got != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		_, _ = a.Close(), b.Close()
	}
}

// A peer that trickles does not get more time for it.
func TestReceiveHasOneLimit(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for _, c := range frame(`{"type":"ack","name":"` + strings.Repeat("x", 4000) + `"}`) {
			if _, err := b.Write([]byte{c}); err != nil {
				return
			}
			<-tick.C
		}
	}()
	began := time.Now()
	_, err := wire{conn: a, patience: time.Second}.receive(50*time.Millisecond, typeAck)
	if reason(err) != palyra.ReasonPairingBroken || time.Since(began) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func reason(err error) palyra.Reason {
	if err == nil {
		return ""
	}
	return palyra.AsError(err).Reason
}

func TestProblemsHaveRemedies(t *testing.T) {
	for r, e := range problems {
		if e.Reason != r || e.Text == "" || e.Remedy == "" {
			t.Errorf("%s: %+v", r, e)
		}
	}
	if e := wireError(palyra.ReasonRateLimited, 1500); e.After != 1500*time.Millisecond {
		t.Errorf("after %v", e.After)
	}
	if e := wireError(palyra.ReasonPairingWrongCode, 1500); e.After != 0 {
		t.Errorf("after %v", e.After)
	}
}
