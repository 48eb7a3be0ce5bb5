package quick

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// answered is a connection at whose other end somebody says text and closes.
func answered(t testing.TB, text string) *conn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(fds[0], time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	other := os.NewFile(uintptr(fds[1]), "other")
	go func() {
		_, _ = other.WriteString(text)
		_ = unix.Shutdown(fds[1], unix.SHUT_WR)
	}()
	t.Cleanup(func() { _ = other.Close() })
	return c
}

func TestAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		text, want string // "": it is left to the full program
	}{
		"with a length":     {ok + "Content-Length: 2\r\n\r\nhi", "hi"},
		"in chunks":         {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", "hi"},
		"an error":          {"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nhi", ""},
		"neither":           {ok + "\r\nhi", ""},
		"both":              {ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi", ""},
		"packed":            {ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi", ""},
		"too long":          {ok + "Content-Length: 99999999\r\n\r\nhi", ""},
		"negative":          {ok + "Content-Length: -1\r\n\r\nhi", ""},
		"a long header":     {ok + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 20) + "Content-Length: 2\r\n\r\nhi", ""},
		"a long line":       {ok + "X: " + strings.Repeat("x", 5000) + "\r\nContent-Length: 2\r\n\r\nhi", ""},
		"a bad chunk":       {ok + "Transfer-Encoding: chunked\r\n\r\nx\r\nh\r\n0\r\n\r\n", ""},
		"a chunk too short": {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nhi\r\n0\r\n\r\n", ""},
		"nothing":           {"", ""},
	} {
		got, err := answered(t, c.text).unary("/x")
		if string(got) != c.want && err == nil || c.want != "" && err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestStream(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
	heard := ""
	hear := func(b []byte) error { heard += string(b); return nil }
	if err := answered(t, head+"\x00\x00\x00\x00\x02hi\x02\x00\x00\x00\x02{}").stream("/x", nil, hear); err != nil || heard != "hi" {
		t.Errorf("%q, %v", heard, err)
	}
	for name, text := range map[string]string{
		"no end":       "\x00\x00\x00\x00\x02hi",
		"an error":     "\x02\x00\x00\x00\x0c{\"error\":{}}",
		"packed":       "\x01\x00\x00\x00\x02hi\x02\x00\x00\x00\x02{}",
		"too long":     "\x00\xff\xff\xff\xffhi",
		"half a frame": "\x00\x00",
	} {
		if err := answered(t, head+text).stream("/x", nil, hear); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// Neither a silent daemon nor a signal is waited for any longer.
func TestPatience(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	c, err := newConn(fds[0], time.Now().Add(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.unary("/x"); !errors.Is(err, errStrange) {
		t.Errorf("%v", err)
	}
	c.until, c.interrupted = time.Now().Add(time.Hour), func() bool { return true }
	if _, err := c.unary("/x"); !errors.Is(err, errStrange) {
		t.Errorf("%v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n\x00\x00\x00\x00\x02hi\r\n7\r\n\x02\x00\x00\x00\x02{}\r\n0\r\n\r\n")
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n\x02\x00\x00\x00\x02{}")
	f.Fuzz(func(t *testing.T, text string) {
		if err := answered(t, text).stream("/x", nil, func([]byte) error { return nil }); err == nil && !strings.Contains(text, "{}") {
			t.Errorf("%q was an answer", text)
		}
	})
}

// A request that is longer than what the kernel keeps for the daemon arrives whole.
func TestALongRequest(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(fds[0], time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	other := os.NewFile(uintptr(fds[1]), "other")
	defer func() { _ = other.Close() }()
	body, got := bytes.Repeat([]byte("x"), 4<<20), make(chan []byte, 1)
	go func() {
		<-time.After(50 * time.Millisecond)
		b, _ := io.ReadAll(other)
		got <- b
	}()
	if err := c.send("/x", "text/plain", "", body); err != nil {
		t.Fatal(err)
	}
	c.close()
	if b := <-got; !bytes.HasSuffix(b, body) {
		t.Errorf("%d bytes arrived", len(b))
	}
}

// A daemon that takes no more of a request does not keep a signal from ending the command, and has been proposed nothing.
func TestARequestIsInterrupted(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	c, err := newConn(fds[0], time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	c.interrupted = func() bool { return true }
	if err := c.stream("/x", make([]byte, 4<<20), nil); !errors.Is(err, errUnsent) || c.taping {
		t.Errorf("%v, proposed: %v", err, c.taping)
	}
}

// What is handed over stays open when nothing here refers to it any more.
func TestWhatIsHandedOverStaysOpen(t *testing.T) {
	c := answered(t, "")
	c.tape = []byte("came")
	tape, err := c.handOverTape()
	if err != nil {
		t.Fatal(err)
	}
	connection := c.fd
	defer func() { _ = errors.Join(unix.Close(tape), unix.Close(connection)) }()
	c.close() // as the collector does
	for range 2 {
		runtime.GC()
	}
	var st unix.Stat_t
	if err := unix.Fstat(connection, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		t.Errorf("the connection: %v, mode %o", err, st.Mode)
	}
	flags, err := unix.FcntlInt(uintptr(connection), unix.F_GETFD, 0)
	status, also := unix.FcntlInt(uintptr(connection), unix.F_GETFL, 0)
	if errors.Join(err, also) != nil || flags != 0 || status&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %x and %x: %v %v", flags, status, err, also)
	}
	b := make([]byte, 8)
	if n, err := unix.Read(tape, b); err != nil || string(b[:n]) != "came" {
		t.Errorf("%q %v", b[:n], err)
	}
}
