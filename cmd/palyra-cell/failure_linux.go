package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// failure is why the launcher did not become the program.
type failure struct {
	step  string
	errno unix.Errno
	text  string
}

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

// number32 is err's errno; EIO for an error without one.
func number32(err error) unix.Errno {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}
