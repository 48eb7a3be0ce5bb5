package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds one message of a client: the largest arguments a tool takes, and what is around them.
const maxMessage = 12 << 20

// Stdio serves one client on a pair of pipes until it hangs up or ctx ends.
func (s *Server) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	t := &mcp.IOTransport{Reader: &patient{in: in, lines: bufio.NewReaderSize(in, maxCancel)}, Writer: open{out}, MaxLineLength: maxMessage}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
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

// open is a writer that is not the server's to close.
type open struct{ io.Writer }

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
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		line, err := p.lines.ReadSlice('\n')
		whole := !p.inner && err == nil
		p.inner = errors.Is(err, bufio.ErrBufferFull)
		if whole && gaveUp(line) {
			continue
		}
		if len(line) == 0 && err != nil {
			return 0, err
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
