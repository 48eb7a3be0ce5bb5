package gitssh

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"palyra/internal/signwire"
)

// gitClient is git in a room, as far as it speaks: it answers, and says nothing by itself. One goroutine at a time
// reads from it; several write.
type gitClient struct {
	conn  net.Conn
	ended bool // it has said everything

	mu sync.Mutex // of writing
}

var (
	errSpoke  = errors.New("gitssh: the client spoke without being asked")
	errObject = errors.New("gitssh: no object")
)

func (r *gitClient) write(kind byte, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return signwire.Write(r.conn, kind, body)
}

// Read implements io.Reader: it asks git for more of what it says.
func (r *gitClient) Read(p []byte) (int, error) {
	if r.ended {
		return 0, io.EOF
	}
	if err := r.write(signwire.More, nil); err != nil {
		return 0, err
	}
	kind, body, err := signwire.Read(r.conn)
	switch {
	case err != nil:
		return 0, err
	case kind != signwire.Data || len(body) > len(p):
		return 0, signwire.ErrFrame
	case len(body) == 0:
		r.ended = true
		return 0, io.EOF
	}
	return copy(p, body), nil
}

// object asks for an object of the repository in the room.
func (r *gitClient) object(_ context.Context, id string) (string, []byte, error) {
	if err := r.write(signwire.NeedID, []byte(id)); err != nil {
		return "", nil, err
	}
	kind, body, err := signwire.Read(r.conn)
	if err != nil {
		return "", nil, err
	}
	is, content, ok := strings.Cut(string(body), "\x00")
	if kind != signwire.Object || !ok {
		return "", nil, errObject
	}
	return is, []byte(content), nil
}

// duringAnswer does something that the client has to wait for. A client that goes away, or speaks meanwhile, ends it.
func (r *gitClient) duringAnswer(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = r.conn.SetDeadline(time.Time{})
	done := make(chan error, 1)
	go func() {
		var one [1]byte
		n, err := r.conn.Read(one[:])
		if n > 0 {
			err = errSpoke
		}
		cancel()
		done <- err
	}()
	err := do(ctx)
	_ = r.conn.SetReadDeadline(time.Unix(1, 0))
	var late net.Error
	if gone := <-done; err == nil && (!errors.As(gone, &late) || !late.Timeout()) {
		err = gone
	}
	_ = r.conn.SetReadDeadline(time.Time{})
	return err
}

// relay has git and a service speak to each other until the service ends.
func (r *gitClient) relay(s *ssh.Session, said io.Reader, in io.WriteCloser, out io.Reader) error {
	up := make(chan struct{})
	go func() {
		defer close(up)
		_, _ = io.Copy(in, said)
		_ = in.Close()
	}()
	piece := make([]byte, 256<<10)
	var lost error
	for {
		n, err := out.Read(piece)
		if n > 0 && lost == nil {
			lost = r.write(signwire.Data, piece[:n])
		}
		if err != nil || lost != nil {
			break
		}
	}
	if lost != nil {
		_ = s.Close()
	}
	err := s.Wait()
	_ = r.conn.SetReadDeadline(time.Unix(1, 0)) // git may have nothing more to say, and not say so
	<-up
	if lost != nil {
		return lost
	}
	code := byte(0)
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		code = byte(max(1, min(exit.ExitStatus(), 125)))
	case err != nil:
		return broken(err)
	}
	return r.write(signwire.Done, []byte{code})
}

// speech is what a server says to people.
type speech struct {
	to   *gitClient
	left int
}

const maxSpeech = 64 << 10

// Write implements io.Writer.
func (s *speech) Write(p []byte) (int, error) {
	n := min(len(p), s.left)
	s.left -= n
	if n > 0 {
		if err := s.to.write(signwire.Text, p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
