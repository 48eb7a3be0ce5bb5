// Package wire is the language between the daemon and palyra-wasm, the process of the runtime.
//
// One side speaks at a time. A frame is its kind, the length of a head in JSON and of a body in bytes, and both. What
// comes from a worker is believed by nobody: lengths are bounded by what is waited for before anything is made room
// for, heads have no unknown members, and nothing follows them.
//
// The package is shared by both ends and imports nothing of ours. Its words are those of docs/words.md.
package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Version is that of the language. Both ends must have the same.
const Version = 1

// Kind is the kind of a frame.
type Kind byte

// The kinds.
const (
	KindHello    Kind = 'h' // worker: Hello; it waits
	KindCompile  Kind = 'c' // daemon: Compile, with a module
	KindCompiled Kind = 'C' // worker: no head, with the compiled module
	KindLoad     Kind = 'l' // daemon: Load, with a compiled module that the daemon vouches for
	KindLoaded   Kind = 'L' // worker: no head
	KindFailed   Kind = 'f' // worker: Failed, instead of Compiled or Loaded
	KindRun      Kind = 'r' // daemon: Invoke, with the input
	KindAsk      Kind = 'a' // worker, during a run: Ask, with the arguments
	KindAnswer   Kind = 'A' // daemon: Answer, with the result
	KindDone     Kind = 'd' // worker: Done, with output and logs
)

// The largest head, and bodies of frames that both ends know the size of.
const (
	MaxHead     = 128 << 10
	MaxModule   = 64 << 20  // of a module's binary
	MaxCompiled = 512 << 20 // of its compiled form
)

// Hello is the first word of a worker.
type Hello struct {
	Version int    `json:"version"`
	Runtime string `json:"runtime"`
}

// Compile asks for a module to be compiled and checked.
type Compile struct {
	Command   bool     `json:"command"`   // of WASI; otherwise exports
	Functions []string `json:"functions"` // that it must export
}

// Load gives the worker its module.
type Load struct {
	Command bool `json:"command"`
}

// Failed says why a module cannot be used.
type Failed struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

// Invoke is one invocation.
type Invoke struct {
	Function  string   `json:"function"`
	Fuel      uint64   `json:"fuel"`
	Memory    int64    `json:"memory"`
	Table     int      `json:"table"`
	Instances int      `json:"instances"`
	MicroS    int64    `json:"micros"` // until its deadline
	Output    int64    `json:"output"`
	Logs      int64    `json:"logs"`
	Answer    int64    `json:"answer"` // most bytes of an answer
	Clock     bool     `json:"clock"`
	Random    bool     `json:"random"`
	Seed      []byte   `json:"seed"` // of what stands for randomness where there is none
	Handles   []Handle `json:"handles"`
}

// Handle is a number by which an instance names what it was granted.
type Handle struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Number int64  `json:"number"`
}

// Ask is a host call.
type Ask struct {
	Function string `json:"function"`
	Handle   int64  `json:"handle"`
	Number   int64  `json:"number"`
	Parts    []int  `json:"parts"` // lengths of the arguments in the body
}

// Answer is what came of it. Trap ends the invocation, for Text.
type Answer struct {
	Code   int32  `json:"code"` // not negative: the length of the body, or as the function says
	Number int64  `json:"number"`
	Trap   string `json:"trap,omitempty"`
	Text   string `json:"text,omitempty"`
}

// Done is the end of a run. An empty reason: it came to its end.
type Done struct {
	Reason string   `json:"reason"`
	Text   string   `json:"text"`
	Exit   int32    `json:"exit"`
	Fuel   uint64   `json:"fuel"` // used
	Memory int64    `json:"memory"`
	Output int64    `json:"output"` // bytes of the body; what follows are logs
	Cut    bool     `json:"cut"`
	Clock  int64    `json:"clock"`  // readings of WASI's clock
	Random int64    `json:"random"` // bytes of WASI's randomness
	Denied []Handle `json:"denied"` // what the instance asked a handle for, and was not granted
}

// Frame is a frame as it was read.
type Frame struct {
	Kind Kind
	Head []byte
	Body []byte
}

const prefix = 1 + 4 + 8

// ErrFrame is that of everything that is no frame of this language.
var ErrFrame = errors.New("wire: not a frame")

// Read reads a frame with a body of at most max bytes.
func Read(r *bufio.Reader, most int64) (Frame, error) {
	var p [prefix]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return Frame{}, err
	}
	head, body := int64(binary.BigEndian.Uint32(p[1:])), int64(binary.BigEndian.Uint64(p[5:]))
	if head > MaxHead || body < 0 || body > most {
		return Frame{}, fmt.Errorf("%w: a head of %d bytes, a body of %d", ErrFrame, head, uint64(body))
	}
	f := Frame{Kind: Kind(p[0])}
	var err error
	if f.Head, err = take(r, head); err == nil {
		f.Body, err = take(r, body)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// step is how much room is made for bytes that have not come.
const step = 1 << 20

// take reads n bytes, and makes room for them as they come.
func take(r io.Reader, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, 0, min(n, step))
	for int64(len(b)) < n {
		want := int(min(n-int64(len(b)), step))
		b = slices.Grow(b, want)
		have := len(b)
		if _, err := io.ReadFull(r, b[have:have+want]); err != nil {
			return nil, err
		}
		b = b[:have+want]
	}
	return b, nil
}

// As reads the head of a frame of the kind k into v.
func (f Frame) As(k Kind, v any) error {
	if f.Kind != k {
		return fmt.Errorf("%w: %q, not %q", ErrFrame, rune(f.Kind), rune(k))
	}
	if v == nil {
		if len(f.Head) > 0 {
			return fmt.Errorf("%w: a head too many", ErrFrame)
		}
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(f.Head))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than a head", ErrFrame)
	}
	return nil
}

// Write writes a frame: in one piece, unless it is large. No head: v is nil.
func Write(w io.Writer, k Kind, v any, body ...[]byte) error {
	var head []byte
	if v != nil {
		var err error
		if head, err = json.Marshal(v); err != nil {
			return err
		}
	}
	if len(head) > MaxHead {
		return fmt.Errorf("%w: a head of %d bytes", ErrFrame, len(head))
	}
	n := 0
	for _, b := range body {
		n += len(b)
	}
	out := make([]byte, 0, prefix+len(head)+min(n, step))
	out = append(out, byte(k))
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	out = binary.BigEndian.AppendUint64(out, uint64(n))
	out = append(out, head...)
	for _, b := range body {
		if len(b) <= step {
			out = append(out, b...)
			continue
		}
		if err := writeAll(w, out, b); err != nil {
			return err
		}
		out = out[:0]
	}
	return writeAll(w, out)
}

func writeAll(w io.Writer, parts ...[]byte) error {
	for _, b := range parts {
		if len(b) == 0 {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Split cuts a body into parts of these lengths.
func Split(body []byte, lengths []int) ([][]byte, error) {
	out := make([][]byte, 0, len(lengths))
	for _, n := range lengths {
		if n < 0 || n > len(body) {
			return nil, fmt.Errorf("%w: parts that are not there", ErrFrame)
		}
		out, body = append(out, body[:n]), body[n:]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("%w: more than its parts", ErrFrame)
	}
	return out, nil
}
