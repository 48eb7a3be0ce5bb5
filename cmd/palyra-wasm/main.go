//go:build cgo && linux

// Command palyra-wasm is the process of the runtime of skills, and the only program of ours with code in C. The daemon
// starts it in a cell that reaches nothing, and speaks to it over stdin and stdout (internal/wasm/wire). It holds one
// module, and makes one invocation at a time. It decides nothing: what an instance asks for, it asks the daemon.
//
// Its words are those of docs/words.md.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"palyra/internal/wasm/wire"
)

func main() {
	if err := enclose(); err != nil {
		fmt.Fprintln(os.Stderr, "palyra-wasm: cannot enclose itself:", err)
		os.Exit(1)
	}
	w, err := newWorker(os.Stdin, os.Stdout)
	if err == nil {
		err = w.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "palyra-wasm:", err)
		os.Exit(1)
	}
}

// worker serves one daemon.
type worker struct {
	in  *bufio.Reader
	out io.Writer
	machine
}

func newWorker(in io.Reader, out io.Writer) (*worker, error) {
	w := &worker{in: bufio.NewReaderSize(in, 64<<10), out: out}
	return w, w.machine.init()
}

// serve answers until the daemon closes its end.
func (w *worker) serve() error {
	if err := wire.Write(w.out, wire.KindHello, wire.Hello{Version: wire.Version, Runtime: runtimeName}); err != nil {
		return err
	}
	for {
		f, err := wire.Read(w.in, wire.MaxCompiled)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.obey(f)
		}
		if err != nil {
			return err
		}
	}
}

// obey does what one frame asks for.
func (w *worker) obey(f wire.Frame) error {
	switch f.Kind {
	case wire.KindCompile:
		var c wire.Compile
		if err := f.As(f.Kind, &c); err != nil {
			return err
		}
		b, err := w.compile(f.Body, c)
		return w.reply(wire.KindCompiled, err, b)
	case wire.KindLoad:
		var l wire.Load
		if err := f.As(f.Kind, &l); err != nil {
			return err
		}
		return w.reply(wire.KindLoaded, w.load(f.Body, l))
	case wire.KindRun:
		var r wire.Invoke
		if err := f.As(f.Kind, &r); err != nil {
			return err
		}
		return w.run(r, f.Body)
	}
	return fmt.Errorf("%w: %q is not for a worker", wire.ErrFrame, rune(f.Kind))
}

// reply says that something was done, or why not.
func (w *worker) reply(k wire.Kind, err error, body ...[]byte) error {
	if err == nil {
		return wire.Write(w.out, k, nil, body...)
	}
	why := stopOf(err)
	return wire.Write(w.out, wire.KindFailed, wire.Failed{Reason: why.reason, Text: why.text})
}

// ask makes a host call, and waits for what comes of it.
func (w *worker) ask(a wire.Ask, most int64, parts ...[]byte) (wire.Answer, []byte, error) {
	for _, p := range parts {
		a.Parts = append(a.Parts, len(p))
	}
	if err := wire.Write(w.out, wire.KindAsk, a, parts...); err != nil {
		return wire.Answer{}, nil, err
	}
	f, err := wire.Read(w.in, most)
	var answer wire.Answer
	if err == nil {
		err = f.As(wire.KindAnswer, &answer)
	}
	return answer, f.Body, err
}

// stop is why something ended. The reasons are those of internal/wasm.
type stop struct{ reason, text string }

// Error implements error.
func (s *stop) Error() string { return s.text }

func stopf(reason, format string, args ...any) *stop {
	return &stop{reason, clip(fmt.Sprintf(format, args...))}
}

// stopOf is the stop in an error, or a trap.
func stopOf(err error) *stop {
	var s *stop
	if errors.As(err, &s) {
		return s
	}
	return stopf("wasm_trap", "%v", err)
}

// mostText is what is said of a reason.
const mostText = 1000

func clip(text string) string { return text[:min(len(text), mostText)] }
