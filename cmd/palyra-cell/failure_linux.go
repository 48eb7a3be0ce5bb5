package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The packets of the launcher to the supervisor. A launcher that ends before the first has run
// nothing; one that ends after it without the second may have.
const (
	sayExec   = 'x' // exec comes next
	sayFailed = 'f' // followed by a failure; nothing ran
)

// failure is why the launcher did not become the program.
type failure struct {
	step  string
	errno unix.Errno
	text  string
}

const maxFailure = 1024

// failed is the failure of a step on the object that text names; the zero failure when err is nil.
func failed(step, text string, err error) failure {
	if err == nil {
		return failure{}
	}
	if text != "" {
		text += ": "
	}
	return failure{step: step, errno: number32(err), text: text + err.Error()}
}

// message is the text for people.
func (f failure) message() string {
	if f.text == "" && f.errno != 0 {
		return f.errno.Error()
	}
	return f.text
}

// send tells the supervisor. It allocates no memory: the launcher may be under the program's own limits already.
func (f failure) send() {
	var b [maxFailure]byte
	b[0] = sayFailed
	binary.LittleEndian.PutUint32(b[1:], uint32(f.errno))
	n := 5 + copy(b[5:64], f.step)
	n += 1 + copy(b[n+1:], f.text)
	say(b[:n])
}

// parseFailure reads what send sent, after its first byte.
func parseFailure(b []byte) (failure, bool) {
	if len(b) < 5 {
		return failure{}, false
	}
	step, text, ok := bytes.Cut(b[4:], []byte{0})
	return failure{step: string(step), errno: unix.Errno(binary.LittleEndian.Uint32(b)), text: string(text)}, ok
}

// say sends a packet to the supervisor by a raw system call.
func say(b []byte) {
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, cell.ControlFD, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
}

// number32 is err's errno; EIO for an error without one.
func number32(err error) unix.Errno {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}
