package dirents

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// List calls f for the entries of a directory until it returns an error. The name is f's for the call only; typ is
// DT_UNKNOWN where the file system does not say.
func List(fd int, buf []byte, f func(name []byte, typ byte) error) error {
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		if err := parse(buf[:n], f); err != nil {
			return err
		}
	}
}

// parse reads what the kernel writes: number (8 bytes), offset (8), length
// of the record (2), type (1), name, zeros.
func parse(b []byte, f func(name []byte, typ byte) error) error {
	const head = 19
	for len(b) > 0 {
		if len(b) < head {
			return errors.New("dirents: directory entry cut short")
		}
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= head || size > len(b) {
			return errors.New("dirents: directory entry of a wrong length")
		}
		name := b[head:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if string(name) != "." && string(name) != ".." {
			if len(name) == 0 || bytes.IndexByte(name, '/') >= 0 {
				return errors.New("dirents: directory entry with a name that cannot be")
			}
			if err := f(name, b[18]); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}
