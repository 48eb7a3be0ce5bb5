package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds one message of a client: the largest arguments a tool takes, and what is around them.
const maxMessage = 12 << 20

// Stdio serves one client on a pair of pipes until it hangs up or ctx ends.
func (s *Server) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owed := newDebts(ctx.Done())
	lines := &patient{in: in, lines: bufio.NewReaderSize(in, maxCancel), owed: owed}
	t := &mcp.IOTransport{Reader: &lifted{in: lines}, Writer: open{out, owed}, MaxLineLength: maxMessage}
	kept := make(chan error, 1)
	go func() { kept <- s.Run(ctx) }()
	err := s.mcp.Run(ctx, t)
	stop()
	<-kept
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// lastAnswers is how long a client that has ended its input is still answered. A call that takes longer goes on without it.
const lastAnswers = 2 * time.Second

// debts are the requests of a client that have no answer yet.
type debts struct {
	mu   sync.Mutex
	left int
	none chan struct{} // closed while there are none
	over <-chan struct{}
}

// newDebts returns none. Nobody waits for them once over is closed.
func newDebts(over <-chan struct{}) *debts {
	none := make(chan struct{})
	close(none)
	return &debts{none: none, over: over}
}

func (d *debts) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.left
	d.left = max(0, d.left+n)
	switch {
	case was == 0 && d.left > 0:
		d.none = make(chan struct{})
	case was > 0 && d.left == 0:
		close(d.none)
	}
}

// settle waits until every request has its answer, or for lastAnswers.
func (d *debts) settle() {
	d.mu.Lock()
	none := d.none
	d.mu.Unlock()
	select {
	case <-none:
	case <-d.over:
	case <-time.After(lastAnswers):
	}
}

// headBytes are the first bytes of a message, in which its id and its kind stand.
const headBytes = 512

// asks and answers report whether a message is a request, and whether it is an answer to one. Neither reads all of it.
func asks(message []byte) bool {
	head := message[:min(len(message), headBytes)]
	return bytes.Contains(head, []byte(`"method"`)) && bytes.Contains(head, []byte(`"id"`))
}

func answers(message []byte) bool {
	head := message[:min(len(message), headBytes)]
	return bytes.Contains(head, []byte(`"id"`)) && (bytes.Contains(head, []byte(`"result"`)) || bytes.Contains(head, []byte(`"error"`)))
}

// open is a writer that is not the server's to close.
type open struct {
	io.Writer
	owed *debts
}

// Write implements io.Writer; each message is one.
func (o open) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if answers(b) {
		o.owed.add(-1)
	}
	return n, err
}

// Close implements io.Closer.
func (open) Close() error { return nil }

// maxCancel is the longest line that may be a client's cancel.
const maxCancel = 4096

// patient is what a client sends, without the cancels that only say that it gave
// up waiting: the call goes on, and palyra_call_wait finds it.
type patient struct {
	in    io.Reader
	lines *bufio.Reader
	rest  []byte
	inner bool // what follows belongs to a long line
	owed  *debts
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		line, err := p.lines.ReadSlice('\n')
		first, whole := !p.inner, !p.inner && err == nil
		p.inner = errors.Is(err, bufio.ErrBufferFull)
		if whole && gaveUp(line) {
			continue
		}
		if len(line) == 0 && err != nil {
			p.owed.settle() // the server drops what is under way when it hears of the end
			return 0, err
		}
		if first && asks(line) {
			p.owed.add(1)
		}
		p.rest = line
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (p *patient) Close() error {
	if c, ok := p.in.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// gaveUp reports whether a message is a cancel by which an SDK says that its time
// was up; those of the official ones say so in the reason.
func gaveUp(line []byte) bool {
	if len(line) > maxCancel || !bytes.Contains(line, []byte("notifications/cancelled")) {
		return false
	}
	var m struct {
		Method string `json:"method"`
		Params struct {
			Reason string `json:"reason"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil || m.Method != "notifications/cancelled" {
		return false
	}
	why := strings.ToLower(m.Params.Reason)
	for _, sign := range []string{"timed out", "timeout", "time-out", "deadline exceeded"} {
		if strings.Contains(why, sign) {
			return true
		}
	}
	return false
}
