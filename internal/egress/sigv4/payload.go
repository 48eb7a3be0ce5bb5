package sigv4

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"

	"palyra"
)

// The largest bodies that are read before anything is signed.
const (
	maxRead = 16 << 20 // where the head does not say the digest
	maxSure = 1 << 20  // where it does, and the body could be passed on while it is read
)

// Room is for bodies that are being read: so many at once.
func Room() chan struct{} { return make(chan struct{}, 4) }

// readPayload finds the digest of the payload, or what stands for it.
func (s *Signed) readPayload(r *http.Request, room chan struct{}) error {
	switch said := r.Header[headerPayload]; {
	case len(said) > 1:
		return refused("it has %d headers %s", len(said), headerPayload).WithRemedy("send one")
	case len(said) == 1:
		s.payload = said[0]
		return s.checkPayload(r)
	case r.Body == nil || r.Body == http.NoBody:
		s.payload, s.read = digestOf(nil), true
		return nil
	}
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxRead+1))
	if err != nil {
		return err
	}
	if len(raw) > maxRead {
		return refused("its body is larger than %d MiB, and its head does not say its digest", maxRead>>20).
			WithRemedy("send the digest in %s, as programs do for s3", headerPayload)
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(raw))
	s.payload, s.read, s.form = digestOf(raw), true, formAction(r, raw)
	return nil
}

// checkPayload refuses what cannot be signed again.
func (s *Signed) checkPayload(r *http.Request) error {
	switch s.payload {
	case unsignedPayload, unsignedTrailer:
		return nil // it is for TLS to keep whole, which the way to the server is
	case streamingPayload, streamingTrailer:
		if r.Body == nil || r.Body == http.NoBody {
			return refused("its payload is to be signed in parts, and there is none").WithRemedy("send the parts, the last of which is empty")
		}
		return nil
	}
	if !validSignature.MatchString(s.payload) {
		return refused("its payload is signed by %s", palyra.Clip(s.payload, 64)).
			WithRemedy("have the program sign a digest of the payload, its parts (%s), or leave it unsigned", streamingPayload)
	}
	if r.Body != nil && r.ContentLength <= maxSure && r.ContentLength >= 0 {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if digestOf(raw) != s.payload {
			return errPayload
		}
		_ = r.Body.Close()
		r.Body, s.read, s.form = io.NopCloser(bytes.NewReader(raw)), true, formAction(r, raw)
	}
	return nil
}

var errPayload = refused("its body is not the payload that was signed").WithRemedy("send what was signed")

// guardBody has the body passed on as it was signed, and not otherwise.
func (s *Signed) guardBody(r *http.Request, next *Signed, key Key, fail func(error)) error {
	if s.read || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	var out io.Reader
	switch s.payload {
	case unsignedPayload, unsignedTrailer:
		return nil
	case streamingPayload, streamingTrailer:
		out = &parts{
			src: bufio.NewReaderSize(r.Body, 64<<10), was: s, next: next, key: key, old: s.signature, fresh: next.signature, fail: fail,
			trailer: s.payload == streamingTrailer,
		}
	default: // a buffer of its own: what reads from a checked wants more than a byte
		out = bufio.NewReaderSize(&checked{src: r.Body, sum: sha256.New(), want: s.payload, fail: fail}, 32<<10)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{out, r.Body}
	return nil
}

// checked is a body whose last byte is given only when the whole is what was signed.
type checked struct {
	src  io.Reader
	sum  hash.Hash
	want string
	fail func(error)
	last []byte // held back: one byte, or none
	err  error
}

// Read implements io.Reader. p is longer than a byte.
func (c *checked) Read(p []byte) (int, error) {
	for c.err == nil {
		n := copy(p, c.last)
		m, err := c.src.Read(p[n:])
		_, _ = c.sum.Write(p[n : n+m])
		n += m
		switch {
		case err == io.EOF:
			if hex.EncodeToString(c.sum.Sum(nil)) != c.want {
				c.err = errPayload
				c.fail(c.err)
				return 0, c.err
			}
			c.err = io.EOF
			return n, io.EOF
		case err != nil:
			c.err = err
			return 0, err
		case n > 0:
			c.last = append(c.last[:0], p[n-1])
			if n--; n > 0 {
				return n, nil
			}
		}
	}
	return 0, c.err
}
