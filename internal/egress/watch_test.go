package egress

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"palyra"
)

// A request in pieces, the first of which looks like something else: no piece
// makes it a request for the server.
func TestARequestInPieces(t *testing.T) {
	for _, say := range []string{
		"FOO /\x00| HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\x08|GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\x00\x01|GET / H|TTP/1.1\r\nHost: evil.example\r\n\r\n",
		"FOO\xe2\x80\x83|/\xe2\x80\x83HTT|P/1.1\r\nHost: evil.example\r\n\r\n",
		"(|GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\x08|\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"0033git-upload-pack /x\x00| HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	} {
		g, w := newGuard(t, Config{})
		type seen struct {
			got []byte
			err error
		}
		server, arrived := make(chan seen, 1), make(chan int, 99)
		w.at(8080, serve(t, func(c *net.TCPConn) {
			var all bytes.Buffer
			_, err := io.Copy(&all, io.TeeReader(c, lengths(arrived)))
			server <- seen{all.Bytes(), err}
		}))
		b := open(t, g, w, "good.example:8080")
		c := ways[doorDirect](b, "good.example", 8080)
		pieces := strings.Split(say, "|")
		for _, p := range pieces[:len(pieces)-1] {
			_, _ = io.WriteString(c, p)
			for n := 0; n < len(p); { // it is with the server
				n += <-arrived
			}
		}
		_, _ = io.WriteString(c, pieces[len(pieces)-1])
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: %v", say, err)
		}
		s := <-server
		if bytes.Contains(s.got, []byte("HTTP/")) || bytes.Contains(s.got, []byte("evil")) || !errors.Is(s.err, syscall.ECONNRESET) {
			t.Errorf("%q: the server got %q, %v", say, s.got, s.err)
		}
		b.flow("good.example", palyra.FlowDenied)
	}
}

// lengths tells how much was written.
type lengths chan<- int

func (l lengths) Write(b []byte) (int, error) { l <- len(b); return len(b), nil }

// Protocols that send no whole line first get through, whatever comes later.
func TestOtherProtocolsInPieces(t *testing.T) {
	for _, say := range []string{
		"\x00\x00\x00T\x00\x03\x00\x00user\x00me\x00|more\nHTTP/1.1 is nothing here\n",     // postgres
		"U\x00\x00\x01\x85\xa6\xff\x20|\x00\x00rest\nGET / HTTP/1.1\r\n",                   // mysql
		"\x10\x1f\x00\x04MQTT\x04\x02|and\x00so on\n HTTP/",                                // mqtt
		"\x13BitTorrent protocol\x00|x\nHTTP/",                                             // a word after all
		"\x00\x00\x00#\x00\x12\x00\x03|\n\x00\nx\nHTTP/",                                   // kafka
		"<?xml version='1.0'?><stream:stream to='good.example'>|\n<HTTP/>",                 // xmpp
		"{\"jsonrpc\":\"2.0\"}|\n{\"x\":\"HTTP/\"}",                                        // a line later
		"get /key\r\n|set x 0 0 8\r\n/ HTTP/1\r\n",                                         // memcached
		strings.Repeat("\x00", 1000) + "|" + strings.Repeat("HTT", 50_000) + "\nHTTP/\n\n", // no end of line for long
	} {
		g, w := newGuard(t, Config{})
		w.at(6000, echo(t, ""))
		b := open(t, g, w, "good.example:6000")
		c := ways[doorConnect](b, "good.example", 6000)
		for _, p := range strings.Split(say, "|") {
			go func() { _, _ = io.WriteString(c, p) }()
			got := make([]byte, len(p))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != p {
				t.Fatalf("%q: %q %v", palyra.Clip(say, 80), palyra.Clip(string(got), 80), err)
			}
		}
		_ = c.Close()
		b.end()
	}
}
