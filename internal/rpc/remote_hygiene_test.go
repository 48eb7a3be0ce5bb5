package rpc_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/rpc"
)

// nothingLeft fails a test that leaves something running. It is the first thing a
// test does, and so the last of its cleanups.
func nothingLeft(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// served fails unless a device is served, on a connection of its own.
func (w *world) served(what string, d *device) {
	w.t.Helper()
	c := w.mtls(d.conf)
	defer c.CloseIdleConnections()
	m := find(w.t, "GetStatus")
	if why, err := w.sendTo(c, d.base, m, m.request(w.t), nil); why != let || err != nil {
		w.t.Errorf("%s: another device: %q %v", what, why, err)
	}
}

// helloOf is what a client says first.
func helloOf(t *testing.T, conf *tls.Config) []byte {
	t.Helper()
	here, there := net.Pipe()
	said := make(chan []byte, 1)
	go func() {
		buf := make([]byte, 1<<14)
		n, _ := there.Read(buf) // one write is one record
		_ = there.Close()
		said <- buf[:n]
	}()
	_ = tls.Client(here, conf).HandshakeContext(t.Context()) // nobody answers
	_ = here.Close()
	return <-said
}

// dribble says a little every now and then until the daemon hangs up.
func dribble(t *testing.T, what string, c net.Conn, say func() error) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(brief / 20)
		defer tick.Stop()
		for stop := time.After(late); say() == nil; {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	ended(t, what, c, late)
	<-over
}

// Whoever takes their time over the handshake is cut off, whatever they have to
// show, and others are served meanwhile.
func TestRemoteSlowHandshake(t *testing.T) {
	nothingLeft(t)
	w := newBriefWorld(t, 64)
	d, other := w.pair("laptop", palyra.RoleOwner), w.pair("tablet", palyra.RoleOwner)
	nobody := d.conf.Clone()
	nobody.Certificates = nil
	slow := map[string]net.Conn{}
	for name, conf := range map[string]*tls.Config{"a device": d.conf, "nobody": nobody, "a newcomer": w.newcomer(newKey())} {
		hello := helloOf(t, conf)
		for what, n := range map[string]int{"nothing": 0, "a byte": 1, "half a hello": len(hello) / 2, "no certificate": len(hello)} {
			c := w.dial("127.0.0.1")
			_, err := c.Write(hello[:n])
			w.must(err)
			slow[name+", "+what] = c
		}
		c := w.dial("127.0.0.1")
		dribble(t, name+", a byte at a time", c, func() error {
			_, err := c.Write(hello[:1])
			hello = hello[1:]
			return err
		})
	}
	w.served("meanwhile", other)
	for what, c := range slow { // all of them came before
		ended(t, what, c, late)
	}
	if seen := w.parts.Seen(); len(seen) > 1 { // the other device's
		t.Errorf("reached %v", seen)
	}
}

// A device that has shown who it is and then says nothing whole is cut off, too:
// before its first frame, in the middle of a header, and between requests.
func TestRemoteSlowHeader(t *testing.T) {
	nothingLeft(t)
	w := newBriefWorld(t, 64)
	d, other := w.pair("laptop", palyra.RoleOwner), w.pair("tablet", palyra.RoleOwner)
	begun := hello + frame(frameSettings, 0, 0, "")
	half := d.call(statusPath, "application/json")
	var slow sync.WaitGroup
	defer slow.Wait()
	const fixed = 10 * time.Second // the library's own bound for the first words
	for what, c := range map[string]struct {
		sent   string
		within time.Duration
	}{
		"nothing":         {"", 5 * fixed},
		"half a greeting": {hello[:8], 5 * fixed},
		"no settings":     {hello, 5 * fixed},
		"no request":      {begun, late},
		"half a frame":    {begun + frame(frameHeaders, flagWhole, 1, half)[:20], late},
		"half a header":   {begun + frame(frameHeaders, flagEnd, 1, half), late},
	} {
		h := w.hand(d, "127.0.0.1")
		h.send(c.sent)
		slow.Go(func() { ended(t, what, h, c.within) })
	}
	h := w.hand(d, "127.0.0.1")
	h.send(begun, frame(frameHeaders, flagEnd, 1, half))
	dribble(t, "a header without end", h, func() error {
		_, err := io.WriteString(h.Conn, frame(frameMore, 0, 1, ""))
		return err
	})
	w.served("meanwhile", other)
	if seen := w.parts.Seen(); len(seen) > 1 {
		t.Errorf("reached %v", seen)
	}
}

// crumbs is a body that never ends: nothing comes, or a little every now and then.
type crumbs struct {
	tick *time.Ticker
	over chan struct{}
}

func newCrumbs(every time.Duration) *crumbs {
	return &crumbs{time.NewTicker(every), make(chan struct{})}
}

func (c *crumbs) Read(p []byte) (int, error) {
	select {
	case <-c.tick.C:
		return copy(p, " "), nil
	case <-c.over:
		return 0, io.ErrUnexpectedEOF
	}
}

// A body that does not come, or comes in crumbs, ends its own request with a word
// about why, and nothing else of that device's.
func TestRemoteSlowBody(t *testing.T) {
	nothingLeft(t)
	w := newBriefWorld(t, 64)
	d, other := w.pair("laptop", palyra.RoleOwner), w.pair("tablet", palyra.RoleOwner)
	watch := w.follow(d.http, d.base, nil)
	for what, every := range map[string]time.Duration{"nothing": time.Hour, "crumbs": brief / 20} {
		body := newCrumbs(every)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.base+statusPath, body)
		w.must(err)
		req.Header.Set("Content-Type", "application/json")
		begun := time.Now()
		res, err := d.http.Do(req)
		w.must(err)
		said, err := io.ReadAll(res.Body)
		w.must(err)
		close(body.over) // closing the answer waits for it
		body.tick.Stop()
		_ = res.Body.Close()
		if took := time.Since(begun); took > late || took < brief || !strings.Contains(string(said), "did not arrive in time") {
			t.Errorf("%s: %s after %v", what, said, took)
		}
		w.served(what, other)
	}
	if seen := w.parts.Seen(); len(seen) > 3 { // the watching, and the other device twice
		t.Errorf("reached %v", seen)
	}
	w.served("afterwards", d)
	select {
	case e := <-watch:
		t.Errorf("the stream beside it ended: %v", e)
	default:
	}
	w.revoke(d)
	w.endsSoon("the stream", watch)
}

func (w *world) revoke(d *device) {
	w.t.Helper()
	_, err := w.registry.RevokeDevice(w.t.Context(), d.ID, w.by())
	w.must(err)
}

// Devices that do not read what they asked for have all of the door's places, and
// the next one gets one: whether they leave the stream no room or do not read at
// all.
func TestRemoteClientThatDoesNotRead(t *testing.T) {
	nothingLeft(t)
	for what, reads := range map[string]bool{"no room in the stream": true, "no reading at all": false} {
		t.Run(what, func(t *testing.T) {
			w := newBriefWorld(t, 2)
			for i := range 20000 {
				w.parts.Entries = append(w.parts.Entries, palyra.Entry{Seq: int64(i + 1), Kind: strings.Repeat("k", 500)})
			}
			other := w.pair("tablet", palyra.RoleOwner)
			one, two := w.stuck("laptop", reads), w.stuck("phone", reads)
			w.getsThePlace(other)
			for _, h := range []*hand{one, two} {
				if reads {
					h.untilReset()
				} else {
					ended(t, "the connection", h, late)
				}
			}
		})
	}
}

// stuck is a device that asks for much and takes nothing of it. If it lives it
// answers pings, and only the stream is stuck.
func (w *world) stuck(name string, lives bool) *hand {
	w.t.Helper()
	d := w.pair(name, palyra.RoleOwner)
	h := w.hand(d, "127.0.0.1")
	room, more := "\x00\x04\x00\x00\x00\x01", "" // of a byte
	if !lives {
		room, more = "\x00\x04\x7f\xff\xff\xff", frame(frameRoom, 0, 0, "\x7f\x00\x00\x00")
	}
	h.send(hello, frame(frameSettings, 0, 0, room), more,
		frame(frameHeaders, flagWhole, 1, d.call("/palyra.v1.JournalService/TailJournal", "application/connect+json")),
		frame(frameData, flagEnd, 1, "\x00\x00\x00\x00\x02{}"))
	if lives {
		h.listen(true)
	}
	for f := (got{}); f.stream != 1; { // it began
		open := true
		if lives {
			f, open = h.next(1, late)
		} else {
			w.must(h.SetReadDeadline(time.Now().Add(late)))
			f, h.why = h.frame()
			open = h.why == nil
		}
		if !open || f.stream == 1 && f.status() != "200" {
			w.t.Fatalf("%q %v", f.status(), h.why)
		}
	}
	return h
}

// untilReset waits until the stream is ended, and only that.
func (h *hand) untilReset() {
	h.t.Helper()
	for f := (got{}); f.kind != frameReset; {
		var open bool
		if f, open = h.next(1, late); !open {
			h.t.Fatalf("the whole connection ended: %v", h.why)
		}
	}
	_ = h.raw.Close()
	for range h.frames {
	}
}

// getsThePlace asks until there is room, which must be in time.
func (w *world) getsThePlace(d *device) {
	w.t.Helper()
	m := find(w.t, "GetStatus")
	tick := time.NewTicker(brief / 20)
	defer tick.Stop()
	for end := time.Now().Add(late); ; <-tick.C {
		why, err := w.sendTo(d.http, d.base, m, m.request(w.t), nil)
		w.must(err)
		switch {
		case why == let:
			return
		case why != palyra.ReasonRateLimited || time.Now().After(end):
			w.t.Fatalf("no place: %q", why)
		}
	}
}

// A header that is too large is refused or cut off before anything reads it; one
// that is much too large costs the connection.
func TestRemoteLargeHeader(t *testing.T) {
	nothingLeft(t)
	w := newBriefWorld(t, 64)
	d, other := w.pair("laptop", palyra.RoleOwner), w.pair("tablet", palyra.RoleOwner)
	many := strings.Split(strings.Repeat("x,y,", 2000), ",") // each is counted with its overhead
	for what, c := range map[string]struct {
		more []string
		want string
	}{
		"small":       {[]string{"x-small", strings.Repeat("x", 8<<10)}, "200"},
		"many":        {many[:4000], "431"},
		"one":         {[]string{"x-large", strings.Repeat("x", 40<<10)}, ""},
		"a large one": {[]string{"x-large", strings.Repeat("x", 4<<20)}, ""},
	} {
		h := w.hand(d, "127.0.0.1")
		h.listen(true)
		h.send(hello, frame(frameSettings, 0, 0, ""), inPieces(d.call(statusPath, "application/json", c.more...)),
			frame(frameData, flagEnd, 1, "{}"))
		f, open := h.next(1, late)
		if c.want == "" && open || c.want != "" && f.status() != c.want {
			t.Errorf("%s: %q, open %v", what, f.status(), open)
		}
		w.served("after a large header", other)
		_ = h.raw.Close()
		for range h.frames {
		}
	}
	if seen := w.parts.Seen(); len(seen) != 5 { // the small one, and the other device's
		t.Errorf("reached %v", seen)
	}
}

// inPieces is the header of the first request, in as many frames as it takes.
func inPieces(block string) string {
	const piece = 16 << 10
	var b strings.Builder
	for kind := byte(frameHeaders); block != ""; kind = frameMore {
		n, flags := min(piece, len(block)), byte(0)
		if n == len(block) {
			flags = flagWhole
		}
		b.WriteString(frame(kind, flags, 1, block[:n]))
		block = block[n:]
	}
	return b.String()
}

// A body that is too large is refused with a word about it, announced or not, and
// reaches nothing; so is one that is only large once it is unpacked.
func TestRemoteLargeBody(t *testing.T) {
	nothingLeft(t)
	w := newBriefWorld(t, 64)
	d, other := w.pair("laptop", palyra.RoleOwner), w.pair("tablet", palyra.RoleOwner)
	large := []byte(`{"x":"` + strings.Repeat("x", 2<<20) + `"}`)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write([]byte(`{"x":"` + strings.Repeat("x", 64<<20) + `"}`))
	w.must(zip.Close())
	for what, body := range map[string]io.Reader{
		"announced": bytes.NewReader(large), "not announced": io.MultiReader(bytes.NewReader(large)), "packed": bytes.NewReader(packed.Bytes()),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.base+statusPath, body)
		w.must(err)
		req.Header.Set("Content-Type", "application/json")
		if what == "packed" {
			req.Header.Set("Content-Encoding", "gzip")
		}
		res, err := d.http.Do(req)
		w.must(err)
		said, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
		w.must(err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(said), "resource_exhausted") {
			t.Errorf("%s: %d %s", what, res.StatusCode, said)
		}
	}
	if seen := w.parts.Seen(); len(seen) > 0 {
		t.Errorf("reached %v", seen)
	}
	w.served("after large bodies", other)
	w.served("after its large bodies", d)
}

// One address has so many connections and no more, with a certificate or without;
// one that is too many is closed at once, others come in meanwhile, and when the
// many are gone so is the crowd.
func TestRemoteTooManyConnections(t *testing.T) {
	nothingLeft(t)
	w := newWorld(t, nil)
	d, other := w.pair("laptop", palyra.RoleOwner), w.pair("tablet", palyra.RoleOwner)
	for what, c := range map[string]struct {
		from string
		most int
		one  func(from string) (lives func() bool, end func())
	}{
		"without a certificate": {"127.0.0.2", rpc.MaxShakingPer, w.silent},
		"with a certificate": {"127.0.0.3", rpc.MaxPerAddress, func(from string) (func() bool, func()) {
			return w.pinging(d, from)
		}},
	} {
		var lives []func() bool
		var ends []func()
		for range c.most {
			live, end := c.one(c.from)
			lives, ends = append(lives, live), append(ends, end)
		}
		for range 10 {
			ended(t, what+", one too many", w.dial(c.from), late)
		}
		w.remoteFrom = "127.0.0.9"
		w.served(what, other)
		for i := range lives {
			if !lives[i]() {
				t.Errorf("%s: number %d is cut off", what, i)
			}
			ends[i]()
		}
		w.comesIn(what, d, c.from)
	}
	w.must(w.stop()) // what was counted is recorded
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	if !slices.ContainsFunc(w.journal.events, func(e palyra.Event) bool { f, ok := e.(palyra.DoorFlood); return ok && f.Door == "remote" }) {
		t.Error("the crowd is not on record")
	}
}

// silent is a connection on which nothing is ever said.
func (w *world) silent(from string) (lives func() bool, end func()) {
	c := w.dial(from)
	return func() bool {
		w.must(c.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	}, func() { _ = c.Close() }
}

// pinging is a device's connection on which nothing is asked.
func (w *world) pinging(d *device, from string) (lives func() bool, end func()) {
	w.t.Helper()
	h := w.hand(d, from)
	h.listen(false)
	h.send(hello, frame(frameSettings, 0, 0, ""))
	if _, open := h.next(0, soon); !open {
		w.t.Fatal(h.why)
	}
	return func() bool {
			h.send(frame(framePing, 0, 0, "palyra!!"))
			for {
				if f, open := h.next(0, soon); !open || f.kind == framePing && f.flags&flagAck != 0 {
					return open
				}
			}
		}, func() {
			_ = h.raw.Close()
			for range h.frames {
			}
		}
}

// comesIn waits until a device is let in from an address.
func (w *world) comesIn(what string, d *device, from string) {
	w.t.Helper()
	w.remoteFrom = from
	c := w.mtls(d.conf)
	defer c.CloseIdleConnections()
	m := find(w.t, "GetStatus")
	for end := time.Now().Add(soon); ; {
		why, err := w.sendTo(c, d.base, m, m.request(w.t), nil)
		if err == nil && why == let {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: nobody comes in when they are gone: %q %v", what, why, err)
		}
	}
}
