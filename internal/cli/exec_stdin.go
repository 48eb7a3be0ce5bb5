package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"palyra"
	"palyra/internal/show"
)

const (
	// maxStdin is how much of stdin is sent with the call, and so bound by what
	// people approve. What is longer is fed while the command runs.
	maxStdin = 1 << 20
	// feedSize is how much is fed at once.
	feedSize = 32 << 10
	// stdinPatience is how long stdin may take before the person is told what
	// is being waited for.
	stdinPatience = 2 * time.Second
)

// input is what the command will read: head and nothing else, or, when live,
// head and then whatever rest gives while the command runs.
type input struct {
	head []byte
	live bool
	rest io.Reader
}

// nothingToRead reports whether stdin is none: closed, a terminal, which is the
// person's, or the null device.
func nothingToRead(r io.Reader) bool {
	f, ok := r.(*os.File)
	if r == nil || ok && f == nil {
		return true
	}
	if !ok {
		return false
	}
	fi, err := f.Stat()
	if err != nil || isTerminal(f) {
		return true
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && fi.Mode()&fs.ModeCharDevice != 0 && os.SameFile(fi, null)
}

// readStdin reads stdin up to its end or up to what is sent with a call,
// whichever comes first. When ctx ends it gives up; the read itself can only
// end with the process.
func (x *execution) readStdin(ctx context.Context) (input, error) {
	type read struct {
		head []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		head, err := io.ReadAll(io.LimitReader(x.Stdin, maxStdin+1))
		done <- read{head, err}
	}()
	slow := time.NewTimer(stdinPatience)
	defer slow.Stop()
	for {
		select {
		case <-ctx.Done():
			return input{}, interrupted(context.Cause(ctx))
		case <-slow.C:
			x.tell("reading stdin; end it with Ctrl-D, or use --no-stdin")
		case r := <-done:
			return inputOf(r.head, r.err, x.Stdin)
		}
	}
}

// inputOf is what was read of stdin.
func inputOf(head []byte, err error, rest io.Reader) (input, error) {
	switch {
	case err != nil:
		return input{}, failed(palyra.ReasonMalformedInput, "cannot read stdin: %v", err).WithRemedy("use --no-stdin, or give it a file")
	case len(head) > maxStdin:
		return input{head: head, live: true, rest: rest}, nil
	}
	return input{head: head}, nil
}

// feed passes stdin on to the running command until one of them ends. It waits
// for no read: a command that ended does not wait for its stdin.
func (x *execution) feed(ctx context.Context) {
	pieces := make(chan []byte)
	var failure error // set before pieces is closed
	go func() {
		defer close(pieces)
		failure = inPieces(ctx, io.MultiReader(bytes.NewReader(x.input.head), x.input.rest), pieces)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case p, ok := <-pieces:
			if !ok {
				if failure != nil {
					x.tell("cannot read stdin: %s", show.Line(failure.Error()))
				}
				_ = x.send(ctx, palyra.Feed{End: true})
				return
			}
			if x.send(ctx, palyra.Feed{Data: p}) != nil {
				return
			}
		}
	}
}

// inPieces reads r to its end and hands it on piece by piece.
func inPieces(ctx context.Context, r io.Reader, pieces chan<- []byte) error {
	for {
		buf := make([]byte, feedSize)
		n, err := r.Read(buf)
		if n > 0 {
			select {
			case pieces <- buf[:n]:
			case <-ctx.Done():
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
