package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// settled is how old a change must be for a digest to be cached: two changes within one tick of the
// kernel's clock leave the same times.
const settled = 2 * time.Second

// read returns the digest and the first bytes of a regular file. It is hashed
// each time unless the run's user could not have changed it since.
func (w *world) read(p *place, most int64) (content, error) {
	if p.st.Mode&unix.S_IFMT != unix.S_IFREG {
		return content{}, irregular(p.real)
	}
	if !w.user.permitted(mayRead, &p.st) {
		return content{}, unix.EACCES
	}
	if p.st.Size > most {
		return content{}, tooLarge(p.real, most)
	}
	key := keyOf(&p.st)
	if p.writable {
		w.print.Unsure()
	} else {
		if c, ok := w.digests.get(key); ok {
			return c, nil
		}
	}
	c, err := w.hashInTurn(p, most)
	if err != nil {
		return content{}, err
	}
	if !p.writable && w.now().Sub(time.Unix(0, key.ctime)) > settled {
		w.digests.put(key, c)
	}
	return c, nil
}

// hashInTurn hashes when few others do and while the plan has not hashed its share: a proposer must
// not be able to keep every core busy.
func (w *world) hashInTurn(p *place, most int64) (content, error) {
	if *w.hashed += p.st.Size; *w.hashed > maxHashed {
		return content{}, tooMuch()
	}
	select {
	case w.hashing <- struct{}{}:
		defer func() { <-w.hashing }()
	case <-w.ctx.Done():
		return content{}, w.ctx.Err()
	}
	return hash(w.ctx, p, most)
}

// hash reads the file. It must be the one that was found, before and after.
func hash(ctx context.Context, p *place, most int64) (content, error) {
	fd, err := p.reopen()
	if err != nil {
		return content{}, err
	}
	f := os.NewFile(uintptr(fd), p.real)
	defer func() { _ = f.Close() }()
	if !sameFile(fd, &p.st) {
		return content{}, unsteady(p.real)
	}
	sum, head := sha256.New(), make([]byte, 0, headSize)
	buf := make([]byte, 256<<10)
	for total := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return content{}, err
		}
		n, err := f.Read(buf)
		sum.Write(buf[:n])
		head = append(head, buf[:min(n, headSize-len(head))]...)
		if total += int64(n); total > most {
			return content{}, tooLarge(p.real, most)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return content{}, err
		}
	}
	if !sameFile(fd, &p.st) {
		return content{}, unsteady(p.real)
	}
	return content{palyra.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil))), string(head)}, nil
}

// reopen opens the found file for reading. A file that is mounted by itself has no directory to be opened from.
func (p *place) reopen() (int, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	if p.dir != none {
		return openat(p.dir, p.name, flags|unix.O_NOFOLLOW)
	}
	return openat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", p.open[len(p.open)-1].fd), flags)
}

func keyOf(st *unix.Stat_t) fileKey {
	return fileKey{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

// sameFile reports whether the open file is the one that was found, unchanged.
func sameFile(fd int, found *unix.Stat_t) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode == found.Mode && st.Uid == found.Uid && st.Gid == found.Gid && keyOf(&st) == keyOf(found)
}
