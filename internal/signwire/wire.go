// Package signwire is the language between palyra-sign, in a room, and the broker that signs: frames of a length, a kind
// and a body. palyra-sign brings a commit or a tag, the broker asks for objects of the repository, and gives a signature
// or says why not. Or it connects git to a server: then the broker speaks to that, sends what it says, and asks for each
// piece of what git says.
package signwire

import (
	"encoding/binary"
	"errors"
	"io"
)

// Door is where the broker answers, in the network of the room.
const Door = "127.80.76.83:7683"

// The kinds of frames.
const (
	Request   = 'R' // from palyra-sign: a Want, as JSON; the first frame
	Payload   = 'P' // from palyra-sign: the commit or tag; the second
	NeedID    = 'N' // from the broker: the id of an object that it wants to look at
	Object    = 'O' // from palyra-sign: the kind of that object, a NUL byte, its content; empty: it is not there
	Signature = 'S' // from the broker: the signature, as text; the last
	Refusal   = 'E' // from the broker: why there is none, for people; the last
	Connect   = 'C' // from palyra-sign: a Way, as JSON; the first frame
	More      = 'M' // from the broker: the next of what git says is wanted
	Data      = 'D' // either way: what the other side says; from palyra-sign the answer to More, where nothing is the end
	Text      = 'T' // from the broker: what the server says to people
	Done      = 'X' // from the broker: one byte, the exit code; the last
)

// MaxFrame is the largest body.
const MaxFrame = 2 << 20

// Want is what is asked for.
type Want struct {
	Format string `json:"format"` // ssh or openpgp
	Key    string `json:"key"`    // as the program that asks names it
	Branch string `json:"branch"` // that the repository has checked out; the broker checks it
}

// Way is the repository that git wants to be connected to.
type Way struct {
	User    string `json:"user"` // empty: the key's
	Host    string `json:"host"`
	Port    string `json:"port"`
	Service string `json:"service"`
	Path    string `json:"path"`
}

// The formats.
const (
	FormatSSH     = "ssh"
	FormatOpenPGP = "openpgp"
)

// ErrFrame is for what is no frame.
var ErrFrame = errors.New("signwire: no frame")

// Write writes a frame.
func Write(w io.Writer, kind byte, body []byte) error {
	if len(body) > MaxFrame {
		return ErrFrame
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 5+len(body)), uint32(len(body)))
	_, err := w.Write(append(append(frame, kind), body...))
	return err
}

// Read reads a frame.
func Read(r io.Reader) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n > MaxFrame {
		return 0, nil, ErrFrame
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return head[4], body, nil
}
