package agent

import (
	"bytes"
	"io"

	"palyra"
)

// scrubber takes our key out of a server's answers. Some servers repeat it when they complain, also in the
// middle of a stream, and their answers are shown and kept.
type scrubber struct {
	io.ReadCloser
	key palyra.Secret
	raw []byte // read, and perhaps the beginning of the key
	out []byte // to be given out
	err error
}

const scrubMark = "[key]"

// scrubbed returns a body without the key. The key stays the caller's.
func scrubbed(body io.ReadCloser, key palyra.Secret) io.ReadCloser {
	return &scrubber{ReadCloser: body, key: key}
}

// Read implements io.Reader. Nothing is held back that cannot be the key. It reads as
// much at once as it is asked for: libraries begin a long line anew with every piece.
func (s *scrubber) Read(p []byte) (int, error) {
	for len(s.out) == 0 && s.err == nil && len(p) > 0 {
		n, err := s.ReadCloser.Read(p)
		s.raw, s.err = append(s.raw, p[:n]...), err
		s.sift()
	}
	n := copy(p, s.out)
	if s.out = s.out[n:]; len(s.out) > 0 || n > 0 {
		return n, nil
	}
	return 0, s.err
}

// sift moves on the bytes that are known not to be part of the key.
func (s *scrubber) sift() {
	held := 0
	_ = s.key.Use(func(key []byte) error {
		if len(key) == 0 {
			return nil
		}
		s.raw = bytes.ReplaceAll(s.raw, key, []byte(scrubMark))
		if s.err == nil {
			held = begun(s.raw, key)
		}
		return nil
	})
	s.out = append(s.out[:0], s.raw[:len(s.raw)-held]...)
	s.raw = append(s.raw[:0], s.raw[len(s.raw)-held:]...)
}

// begun is how many bytes at the end of a text may be the beginning of the key.
func begun(text, key []byte) int {
	for n := min(len(key)-1, len(text)); n > 0; n-- {
		if bytes.HasSuffix(text, key[:n]) {
			return n
		}
	}
	return 0
}
