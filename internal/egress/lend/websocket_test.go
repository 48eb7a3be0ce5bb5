package lend

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

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
