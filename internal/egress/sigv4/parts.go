package sigv4

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The limits of a payload in parts.
const (
	maxPart    = 1 << 20 // bytes of one, which is read whole before it is passed on
	maxTrailer = 4 << 10
	maxLine    = 256
)

const (
	partAlgorithm    = algorithm + "-PAYLOAD"
	trailerAlgorithm = algorithm + "-TRAILER"
	partSignature    = ";chunk-signature="
	trailerSignature = "x-amz-trailer-signature:"
)

// parts is a payload that is signed part by part (aws-chunked), each signature over the one before it. Each is verified, and
// signed again. It is as long as it was.
type parts struct {
	src        *bufio.Reader
	was, next  *Signed
	key        Key
	old, fresh string // signatures of the part before
	trailer    bool
	fail       func(error)
	part       []byte // the bytes of one
	out        bytes.Buffer
	err        error
}

// Read implements io.Reader.
func (p *parts) Read(b []byte) (int, error) {
	for p.out.Len() == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.out.Reset()
		if p.err = p.more(); p.err != nil && p.err != io.EOF {
			p.out.Reset()
			p.fail(p.err)
		}
	}
	return p.out.Read(b)
}

func badPart(format string, args ...any) error {
	return refused("its payload "+format, args...).WithRemedy("send it in parts as they were signed, the last of which is empty")
}

// more reads, verifies and signs one part; io.EOF: it was the last.
func (p *parts) more() error {
	line, err := p.line()
	if err != nil {
		return err
	}
	size, sig, ok := strings.Cut(line, partSignature)
	n, err := strconv.ParseUint(size, 16, 31)
	if !ok || err != nil || !validSignature.MatchString(sig) {
		return badPart("has a part that cannot be read")
	}
	if n > maxPart {
		return refused("a part of its payload is larger than %d MiB", maxPart>>20).
			WithRemedy("send smaller parts, or the digest of the whole in %s", headerPayload)
	}
	if uint64(cap(p.part)) < n {
		p.part = make([]byte, n)
	}
	p.part = p.part[:n]
	if _, err := io.ReadFull(p.src, p.part); err != nil {
		return short(err)
	}
	text := func(s *Signed, before string) string {
		return strings.Join([]string{partAlgorithm, s.time, s.scope(), before, digestOf(nil), digestOf(p.part)}, "\n")
	}
	if err := p.step(sig, text); err != nil {
		return err
	}
	fmt.Fprintf(&p.out, "%s%s%s\r\n%s", size, partSignature, p.fresh, p.part)
	if n > 0 || !p.trailer {
		if line, err := p.line(); err != nil || line != "" {
			return badPart("has a part that is longer than it says")
		}
		p.out.WriteString("\r\n")
	}
	if n > 0 {
		return nil
	}
	if p.trailer {
		if err := p.trailers(); err != nil {
			return err
		}
	}
	switch _, err := p.src.ReadByte(); {
	case err == nil:
		return badPart("goes on behind its last part")
	case !errors.Is(err, io.EOF):
		return err
	}
	return io.EOF
}

// step verifies one signature of the chain, and makes the one that takes its place.
func (p *parts) step(sig string, text func(s *Signed, before string) string) error {
	want, err := p.was.signText(p.was.mandate.Stand, text(p.was, p.old))
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(want), []byte(sig)) {
		return badPart("has a part that is not what was signed with the key of this run")
	}
	p.old = sig
	p.fresh, err = p.next.signText(p.key, text(p.next, p.fresh))
	return err
}

// trailers signs the fields behind the last part again.
func (p *parts) trailers() error {
	var fields, written strings.Builder
	for written.Len() < maxTrailer {
		line, err := p.line()
		if err != nil {
			return err
		}
		if sig, ok := strings.CutPrefix(line, trailerSignature); ok {
			err := p.step(sig, func(s *Signed, before string) string {
				return strings.Join([]string{trailerAlgorithm, s.time, s.scope(), before, digestOf([]byte(fields.String()))}, "\n")
			})
			if err != nil {
				return err
			}
			if line, err := p.line(); err != nil || line != "" {
				return badPart("goes on behind the signature of its trailer")
			}
			p.out.WriteString(written.String() + trailerSignature + p.fresh + "\r\n\r\n")
			return nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !validHeader.MatchString(name) {
			return badPart("has a trailer that is not signed")
		}
		fields.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
		written.WriteString(line + "\r\n")
	}
	return badPart("has a trailer of more than %d KiB", maxTrailer>>10)
}

// line reads to the end of a line.
func (p *parts) line() (string, error) {
	raw, err := p.src.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return "", short(err)
	}
	line, ok := bytes.CutSuffix(raw, []byte("\r\n"))
	if !ok || len(line) > maxLine {
		return "", badPart("has a line that cannot be read")
	}
	return string(line), nil
}

// short tells a payload that ends too early from a way that is broken.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badPart("ends before its last part")
	}
	return err
}
