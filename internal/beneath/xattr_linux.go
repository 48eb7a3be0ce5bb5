package beneath

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// Access lists are attributes of these names.
const (
	AccessList  = "system.posix_acl_access"
	DefaultList = "system.posix_acl_default" // what files get that are made in a directory
)

// Attributes lists the extended attributes of a file, and its access lists.
func Attributes(file string) ([]string, error) {
	n, err := unix.Llistxattr(file, nil)
	if n == 0 || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	buf := make([]byte, max(n, 0))
	if err == nil {
		n, err = unix.Llistxattr(file, buf)
	}
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00"), nil
}

// Named are the entries of an access list for users and groups by name: those that a file gets as they are from the
// directory that it is made in.
func Named(list []byte) (out []uint64) {
	const head, size, user, group = 4, 8, 0x02, 0x08
	for i := head; i+size <= len(list); i += size {
		if tag := binary.LittleEndian.Uint16(list[i:]); tag == user || tag == group {
			out = append(out, binary.LittleEndian.Uint64(list[i:]))
		}
	}
	return out
}

// mostAttribute is more than an attribute can have.
const mostAttribute = 64 << 10

// Attribute is the value of an attribute.
func Attribute(file, x string) ([]byte, error) {
	buf := make([]byte, mostAttribute)
	n, err := unix.Lgetxattr(file, x, buf)
	return buf[:max(n, 0)], err
}
