package preimage

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

// errElse means that a stream is for something else.
var errElse = errors.New("preimage: it is for something else")

var errCut = errors.New("preimage: it is cut short, or not one")

// treeReader reads one stream.
type treeReader struct {
	ctx  context.Context // of the reading, which it does not outlive
	from io.Reader
	buf  []byte
}

// eachRecord calls f with each record; f reads the parts of a regular file by r.parts, once.
func eachRecord(ctx context.Context, from io.Reader, about string, f func(r *treeReader, e *record) error) error {
	r := &treeReader{ctx: ctx, from: from, buf: make([]byte, 256<<10)}
	begin, err := r.block()
	if err != nil {
		return err
	}
	if string(begin) != firstTree+" "+about {
		return errElse
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := r.block()
		if err != nil {
			return err
		}
		if len(text) == 0 {
			break
		}
		var e record
		if err := json.Unmarshal(text, &e); err != nil || len(e.Path) == 0 || !beneath.Leads(string(e.Path), mostTreePath) || e.Size < 0 {
			return errCut
		}
		if err := f(r, &e); err != nil {
			return err
		}
	}
	if n, err := io.ReadFull(from, r.buf[:1]); n > 0 || !errors.Is(err, io.EOF) {
		return errors.Join(errCut, err)
	}
	return nil
}

// block reads some bytes.
func (r *treeReader) block() ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r.from, n[:]); err != nil {
		return nil, errors.Join(errCut, err)
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > mostHead {
		return nil, errCut
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r.from, b); err != nil {
		return nil, errors.Join(errCut, err)
	}
	return b, nil
}

// parts calls f with the bytes of a file and where they are, in order.
func (r *treeReader) parts(size int64, f func(at int64, b []byte) error) error {
	for last := uint64(0); ; {
		var n [16]byte
		if _, err := io.ReadFull(r.from, n[:]); err != nil {
			return errors.Join(errCut, err)
		}
		at, length := binary.BigEndian.Uint64(n[:8]), binary.BigEndian.Uint64(n[8:])
		if at == atEnd {
			return nil
		}
		if at < last || length == 0 || at > math.MaxInt64 || length > math.MaxInt64 || at+length > uint64(size) {
			return errCut
		}
		last = at + length
		for length > 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			b := r.buf[:min(length, uint64(len(r.buf)))]
			if _, err := io.ReadFull(r.from, b); err != nil {
				return errors.Join(errCut, err)
			}
			if err := f(int64(at), b); err != nil {
				return err
			}
			at, length = at+uint64(len(b)), length-uint64(len(b))
		}
	}
}

// readTree makes what a stream has in a directory, in which nothing is.
func readTree(ctx context.Context, from io.Reader, about string, top int) error {
	var dirs []*record
	err := eachRecord(ctx, from, about, func(r *treeReader, e *record) error {
		if e.kind() == unix.S_IFDIR {
			dirs = append(dirs, e)
		}
		return beneath.InParent(top, string(e.Path), func(dir int, name string) error { return r.create(dir, name, e) })
	})
	for _, e := range slices.Backward(dirs) { // what is in them is there
		if err == nil {
			err = beneath.InParent(top, string(e.Path), func(dir int, name string) error {
				return errors.Join(beneath.ChmodAt(dir, name, e.Mode&0o3777), e.times(dir, name))
			})
		}
	}
	if err != nil {
		return fmt.Errorf("preimage: read: %w", err)
	}
	return nil
}

func (r *record) times(dir int, name string) error {
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{r.Time, r.Time}, unix.AT_SYMLINK_NOFOLLOW)
}

// create makes one thing.
func (r *treeReader) create(dir int, name string, e *record) error {
	switch e.kind() {
	case unix.S_IFDIR:
		return unix.Mkdirat(dir, name, 0o700)
	case unix.S_IFLNK:
		return errors.Join(unix.Symlinkat(string(e.Target), dir, name), e.times(dir, name))
	case unix.S_IFIFO:
		return errors.Join(unix.Mkfifoat(dir, name, e.Mode&0o777), e.times(dir, name))
	case unix.S_IFREG:
		return r.file(dir, name, e)
	}
	return errCut
}

func (r *treeReader) file(dir int, name string, e *record) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	err = r.parts(e.Size, func(at int64, b []byte) error {
		_, err := f.WriteAt(b, at)
		return err
	})
	if err == nil {
		err = f.Truncate(e.Size)
	}
	return errors.Join(err, unix.Fchmod(fd, e.Mode&0o777), f.Close(), e.times(dir, name))
}

// treeFiles returns the content of the regular files of a stream that pick picks, by their paths, of at most so many bytes
// together: those that are over it are not there.
func treeFiles(ctx context.Context, from io.Reader, about string, pick func(path string, size int64) bool, most int64,
) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := eachRecord(ctx, from, about, func(r *treeReader, e *record) error {
		if e.kind() != unix.S_IFREG {
			return nil
		}
		picked := e.Size <= most && pick(string(e.Path), e.Size)
		var text []byte
		if picked {
			most -= e.Size
			text = make([]byte, e.Size)
			out[string(e.Path)] = text
		}
		return r.parts(e.Size, func(at int64, b []byte) error {
			if picked {
				copy(text[at:], b)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("preimage: read: %w", err)
	}
	return out, nil
}

// readBack has a stream written to a writer, and reads on the way whether it is whole: what would not come back is an error.
func readBack(ctx context.Context, to io.Writer, about string, write func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, beside := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := eachRecord(ctx, from, about, func(r *treeReader, e *record) error {
			if e.kind() != unix.S_IFREG {
				return nil
			}
			return r.parts(e.Size, func(int64, []byte) error { return nil })
		})
		_ = from.CloseWithError(errors.Join(errCut, err)) // who still writes does not wait
		read <- err
	}()
	err := write(io.MultiWriter(to, beside))
	_ = beside.CloseWithError(err) // nil: that is the end
	if readErr := <-read; err == nil && readErr != nil {
		err = fmt.Errorf("preimage: what was written does not come back: %w", readErr)
	}
	return err
}
