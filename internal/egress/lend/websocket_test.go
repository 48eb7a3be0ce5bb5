package lend

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/secrets"
)

// chat is a server that speaks WebSocket: it keeps messages, and sends each back, in pieces.
func chat(got chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			base64.StdEncoding.EncodeToString(sum[:]))
		_ = rw.Flush()
		for range 4 {
			text := readFrame(rw.Reader)
			if got <- text; text == "" {
				continue
			}
			for piece := range slices.Chunk(append([]byte{0x81, byte(len(text))}, text...), 7) {
				_, _ = conn.Write(piece)
			}
		}
	}
}

// readFrame reads the text of the next short frame.
func readFrame(r *bufio.Reader) string {
	head, err := r.Peek(6)
	if err != nil {
		return ""
	}
	f, _ := frameHead(head)
	_, _ = r.Discard(f.length)
	b := make([]byte, f.size)
	_, _ = io.ReadFull(r, b)
	if f.masked {
		unmask(b, f.key)
	}
	return string(b)
}

// The value goes into the first message of a WebSocket, whatever its pieces, and into no later one.
func TestFirstMessage(t *testing.T) {
	l := loan("ws", secrets.WebSocket, "", "")
	l.Value = palyra.NewSecret([]byte("short enough for one frame"))
	got := make(chan string, 4)
	b := newBound(t, false, chat(got), l)
	r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Extensions": {"permessage-deflate"},
	}
	res, err := b.client.Do(r)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	defer func() { _ = res.Body.Close() }()
	conn := res.Body.(io.ReadWriter)
	back := bufio.NewReader(conn)
	for i, want := range []string{"auth short enough for one frame!", "auth " + l.Placeholder + "!"} {
		frame := newFrame(0x81, []byte("auth "+l.Placeholder+"!"))
		for piece := range slices.Chunk(append(newFrame(0x89, nil), frame...), 5) { // behind a ping
			_, _ = conn.Write(piece)
		}
		text := <-got
		if text == "" { // the ping
			text = <-got
		}
		if text != want {
			t.Errorf("message %d is %q, not %q", i, text, want)
		}
		if told := readFrame(back); strings.Contains(told, "short enough for one frame") {
			t.Errorf("the value came back: %q", told)
		}
	}
}

// FuzzFirstMessage holds that whatever a client sends goes on whole, and never panics.
func FuzzFirstMessage(f *testing.F) {
	f.Add([]byte{0x81, 0x85, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint8(2))
	f.Add(newFrame(0x81, []byte("hello")), uint8(1))
	f.Fuzz(func(t *testing.T, sent []byte, step uint8) {
		l := loan("ws", secrets.WebSocket, "", "")
		var out bytes.Buffer
		m := &firstMessage{to: &out, loans: []secrets.Loan{l}, note: func(Use) {}}
		for piece := range slices.Chunk(sent, int(step)+1) {
			if n, err := m.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := append(out.Bytes(), m.held...); !bytes.Equal(got, sent) {
			t.Fatalf("%x became %x", sent, got)
		}
	})
}

// serverFrame writes a frame of a server.
func serverFrame(first byte, payload string) []byte {
	n := len(payload)
	if n < 126 {
		return append([]byte{first, byte(n)}, payload...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{first, 126}, uint16(n)), payload...)
}

// sentBack is what a client reads of what a server sends, however it is cut.
func sentBack(m masks, sent []byte, step int) ([]byte, error) {
	var pieces []io.Reader
	for piece := range slices.Chunk(sent, step) {
		pieces = append(pieces, bytes.NewReader(piece))
	}
	r := m.reader(io.NopCloser(io.MultiReader(pieces...)), -1, func() {}).(*masked)
	r.frames, r.pause = &frames{}, time.Minute // a busy machine is no pause
	return io.ReadAll(r)
}

// A value that a server sends back in the parts of a message, with a ping between them, in two messages or in the reason of
// its end is masked; the frames stay as they were.
func TestFragmentsAreMasked(t *testing.T) {
	l := loan("ws", secrets.WebSocket, "", "")
	m := masksOf([]secrets.Loan{l})
	long := strings.Repeat("something else ", 20)
	for what, parts := range map[string][][]byte{
		"one frame": {serverFrame(0x81, "it is "+value+".")},
		"two parts": {serverFrame(0x01, "it is "+value[:7]), serverFrame(0x80, value[7:]+".")},
		"many parts": {
			serverFrame(0x01, long+value[:1]), serverFrame(0x00, value[1:9]), serverFrame(0x00, ""), serverFrame(0x80, value[9:]+long),
		},
		"a ping within": {serverFrame(0x01, value[:7]), serverFrame(0x89, "ping"), serverFrame(0x80, value[7:])},
		"two messages":  {serverFrame(0x81, value[:7]), serverFrame(0x82, value[7:])},
		"its end":       {serverFrame(0x88, value)},
		"hex":           {serverFrame(0x01, fmt.Sprintf("%x", value)[:31]), serverFrame(0x80, fmt.Sprintf("%x", value)[31:])},
	} {
		sent := bytes.Join(parts, nil)
		for step := 1; step <= len(sent); step++ {
			got, err := sentBack(m, sent, step)
			if err != nil || len(got) != len(sent) {
				t.Fatalf("%s in pieces of %d: %q, %v", what, step, got, err)
			}
			carried, heads := "", 0
			for rest := got; len(rest) > 0; heads++ {
				h, ok := frameHead(rest)
				if was, _ := frameHead(sent[len(sent)-len(rest):]); !ok || h != was {
					t.Fatalf("%s in pieces of %d: frame %d is %+v, was %+v", what, step, heads, h, was)
				}
				if !h.control || heads == 0 {
					carried += string(rest[h.length : h.length+h.size])
				}
				rest = rest[h.length+h.size:]
			}
			if heads != len(parts) || strings.Contains(carried, value) || strings.Contains(carried, fmt.Sprintf("%x", value)) ||
				strings.Contains(carried, value[7:]) {
				t.Fatalf("%s in pieces of %d: %d frames carry %q", what, step, heads, carried)
			}
		}
	}
	for what, sent := range map[string][]byte{"a client's frame": newFrame(0x81, []byte(value)), "a long ping": serverFrame(0x89, long)} {
		if got, err := sentBack(m, sent, 3); !errors.Is(err, errFrame) || len(got) > 0 {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// FuzzFrames holds that frames without a value come as they were sent, up to what no server may send.
func FuzzFrames(f *testing.F) {
	f.Add(slices.Concat(serverFrame(0x01, "one"), serverFrame(0x89, "ping"), serverFrame(0x80, "two")), uint8(2))
	f.Add([]byte{0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0, 'x'}, uint8(0))
	f.Fuzz(func(t *testing.T, sent []byte, step uint8) {
		m := masksOf([]secrets.Loan{loan("ws", secrets.WebSocket, "", "")})
		got, err := sentBack(m, sent, int(step)+1)
		if !bytes.HasPrefix(sent, got) || err == nil && len(got)+maxFrameHead+maxControl < len(sent) {
			t.Fatalf("%x became %x, %v", sent, got, err)
		}
	})
}
