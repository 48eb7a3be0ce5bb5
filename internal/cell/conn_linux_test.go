package cell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns two connected ends.
func pair(t *testing.T) (a, b *Conn) {
	t.Helper()
	x, y, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		f *os.File
		c **Conn
	}{{x, &a}, {y, &b}} {
		if *end.c, err = NewConn(end.f); err != nil {
			t.Fatal(err)
		}
		c := *end.c
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// raw sends a packet as no Conn would.
func raw(t *testing.T, c *Conn, b []byte, fds ...int) {
	t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := control(c.file, func(fd uintptr) error { return unix.Sendmsg(int(fd), b, oob, nil, 0) }); err != nil {
		t.Fatal(err)
	}
}

func TestSendAndReceive(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Send(Order{Kind: OrderStop, Reason: "x", GraceMS: 7}, int(w.Fd())); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	var o Order
	files, err := b.Recv(&o)
	if err != nil || o != (Order{Kind: OrderStop, Reason: "x", GraceMS: 7}) || len(files) != 1 {
		t.Fatalf("%+v, %d files, %v", o, len(files), err)
	}
	if flags, err := unix.FcntlInt(files[0].Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a received descriptor would be inherited: %v", err)
	}
	_, _ = files[0].WriteString("through")
	CloseAll(append(files, nil))
	if got, err := io.ReadAll(r); err != nil || string(got) != "through" {
		t.Errorf("%q, %v", got, err)
	}
}

// Two at once in both directions, while a reader waits: packets stay whole.
func TestConcurrent(t *testing.T) {
	a, b := pair(t)
	const each = 200
	var group sync.WaitGroup
	for n := range 3 {
		group.Go(func() {
			for range each {
				if err := a.Send(Report{Kind: ReportExited, Text: strings.Repeat("x", 100*n), Code: 100 * n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 * each {
		var r Report
		if _, err := b.Recv(&r); err != nil || len(r.Text) != r.Code {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	group.Wait()
}

// packet is an Order or a Report as it travels.
func packet(t *testing.T, v any) []byte {
	t.Helper()
	b, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is refused is refused whole, leaves no descriptor behind and does not
// spoil the packet after it.
func TestBadPackets(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	fd := int(null.Fd())
	many := make([]int, maxFDs+1)
	for i := range many {
		many[i] = fd
	}
	for name, send := range map[string]func(*testing.T, *Conn){
		"too long":             func(t *testing.T, c *Conn) { raw(t, c, make([]byte, MaxPacket+1), fd) },
		"far too long":         func(t *testing.T, c *Conn) { raw(t, c, make([]byte, 3*MaxPacket), fd) },
		"too many descriptors": func(t *testing.T, c *Conn) { raw(t, c, packet(t, Order{Kind: OrderStop}), many...) },
		"not a packet":         func(t *testing.T, c *Conn) { raw(t, c, []byte("stop"), fd) },
		"a byte behind it":     func(t *testing.T, c *Conn) { raw(t, c, append(packet(t, Order{Kind: OrderStop}), 0), fd, fd) },
		"two packets":          func(t *testing.T, c *Conn) { raw(t, c, slices.Repeat(packet(t, Order{Kind: OrderStop}), 2), fd) },
		"the other end's":      func(t *testing.T, c *Conn) { raw(t, c, packet(t, Report{Kind: ReportEnded}), fd) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			before := open(t)
			send(t, a)
			var o Order
			if files, err := b.Recv(&o); err == nil || errors.Is(err, io.EOF) || files != nil {
				t.Fatalf("%+v, %d files, %v", o, len(files), err)
			}
			if after := open(t); after != before {
				t.Errorf("%d descriptors, then %d", before, after)
			}
			if err := a.Send(Order{Kind: OrderStop}); err != nil {
				t.Fatal(err)
			}
			o = Order{}
			if _, err := b.Recv(&o); err != nil || o.Kind != OrderStop {
				t.Errorf("the next one: %+v, %v", o, err)
			}
		})
	}
}

// open is the number of open descriptors.
func open(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestSendRefuses(t *testing.T) {
	a, _ := pair(t)
	if err := a.Send(Order{Reason: strings.Repeat("x", MaxPacket)}); err == nil {
		t.Error("a packet that nobody would read was sent")
	}
	if err := a.Send(Order{}, make([]int, maxFDs+1)...); err == nil {
		t.Error("too many descriptors were sent")
	}
	if err := a.Send(func() {}); err == nil {
		t.Error("a function was sent")
	}
	if err := a.Send(Order{}, 1<<20); !errors.Is(err, unix.EBADF) {
		t.Errorf("a descriptor that is none: %v", err)
	}
}

func TestOtherEndGone(t *testing.T) {
	a, b := pair(t)
	_ = a.Close()
	var o Order
	if _, err := b.Recv(&o); !errors.Is(err, io.EOF) {
		t.Errorf("receive: %v", err)
	}
	if err := b.Send(o); !errors.Is(err, unix.EPIPE) {
		t.Errorf("send: %v", err)
	}

	// It goes with a packet unread, as a cell does that a late order reaches: its
	// last word must not be lost.
	c, d := pair(t)
	if err := errors.Join(d.Send(o), c.Send(Order{Reason: "last"})); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if _, err := d.Recv(&o); err != nil || o.Reason != "last" {
		t.Errorf("receive after a reset: %+v, %v", o, err)
	}
	if _, err := d.Recv(&o); !errors.Is(err, io.EOF) {
		t.Errorf("receive after a reset: %v", err)
	}
}

// Closing wakes who waits, and deadlines end it.
func TestWaiting(t *testing.T) {
	a, _ := pair(t)
	woken := make(chan error)
	go func() {
		_, err := a.Recv(new(Order))
		woken <- err
	}()
	_ = a.Close()
	if err := <-woken; !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	c, _ := pair(t)
	if err := c.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Recv(new(Order)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestNewConnRefuses(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fds[1]) }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	before := open(t)
	for _, f := range []*os.File{os.NewFile(uintptr(fds[0]), "stream"), null} {
		if _, err := NewConn(f); err == nil {
			t.Errorf("%s is no cell's socket", f.Name())
		}
		if err := f.Close(); err == nil {
			t.Errorf("%s was left open", f.Name())
		}
	}
	if after := open(t); after != before-2 {
		t.Errorf("%d descriptors, then %d", before, after)
	}
	if _, err := NewConn(null); err == nil {
		t.Error("a closed file was taken")
	}
}

func TestSpecFile(t *testing.T) {
	want := good()
	f, err := WriteSpec(want)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for range 2 { // both ends read the same descriptor
		got, err := ReadSpec(f)
		if err != nil || fmt.Sprintf("%+v", got.Landlock) != fmt.Sprintf("%+v", want.Landlock) || got.Cwd != want.Cwd {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it can still be changed")
	}
	if err := f.Truncate(1); err == nil {
		t.Error("it can still be cut")
	}
	bad := want
	bad.Filter = nil
	if _, err := WriteSpec(bad); err == nil {
		t.Error("a bad one was written")
	}
	bad = want
	bad.Env = []string{strings.Repeat("x", MaxSpec)}
	if _, err := WriteSpec(bad); err == nil {
		t.Error("one that nobody would read was written")
	}
}

func TestReadSpecRefuses(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	unsealed, err := memory("x")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unsealed.Close() }()
	closed, err := memory("x")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for _, f := range []*os.File{null, unsealed, closed} {
		if s, err := ReadSpec(f); err == nil {
			t.Errorf("%+v", s)
		}
	}
}
