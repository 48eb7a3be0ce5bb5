package pace_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"palyra/internal/pace"
)

// A client that is refused and sends its body byte by byte has its answer, and
// its connection ends; one that sends it whole keeps its connection.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(pace.Unread(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			_, _ = io.Copy(io.Discard, r.Body)
		case "/flushed":
			w.WriteHeader(http.StatusForbidden)
			_ = http.NewResponseController(w).Flush()
			return
		case "/large":
			http.Error(w, strings.Repeat("no", 8<<10), http.StatusForbidden)
			return
		}
		http.Error(w, "no", http.StatusForbidden)
	})))
	t.Cleanup(s.Close)
	dial := func(path, head string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", path, head); err != nil {
			t.Fatal(err)
		}
		return conn, bufio.NewReader(conn)
	}
	for _, c := range []struct{ path, head string }{
		{"/", "Content-Length: 500"},
		{"/", "Transfer-Encoding: chunked"},
		{"/", "Expect: 100-continue\r\nContent-Length: 500"},
		{"/flushed", "Content-Length: 500"},
		{"/flushed", "Transfer-Encoding: chunked"},
		{"/large", "Content-Length: 500"},
		{"/large", "Transfer-Encoding: chunked"},
	} {
		path, head := c.path, c.path+" "+c.head
		conn, r := dial(path, c.head)
		over := make(chan struct{})
		go func() { // as slowly as can be: one byte, and no more
			defer close(over)
			_, _ = conn.Write([]byte("5"))
		}()
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %v", head, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if _, err := r.ReadByte(); err == nil || isTimeout(err) {
			t.Errorf("%s: the connection stays: %v", head, err)
		}
		<-over
	}
	for _, path := range []string{"/", "/read", "/flushed", "/large"} {
		conn, r := dial(path, "Content-Length: 3")
		for range 3 {
			if _, err := fmt.Fprintf(conn, "abcPOST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", path); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(r, nil)
			if err != nil || resp.StatusCode != http.StatusForbidden || resp.Close {
				t.Fatalf("%s: %v", path, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}
}

// An answer that goes on after its first byte is not ended by the limit of the body, which is there by then.
func TestAnAnswerThatGoesOn(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	gone := make(chan error, 1)
	s := httptest.NewServer(pace.Unread(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-next:
		}
		gone <- r.Context().Err()
	})))
	t.Cleanup(s.Close)
	resp, err := http.Post(s.URL, "text/plain", strings.NewReader("the whole body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	after := time.AfterFunc(1500*time.Millisecond, func() { close(next) }) // longer than a body that nobody wants has
	defer after.Stop()
	if err := <-gone; err != nil {
		t.Errorf("the request ended: %v", err)
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}
