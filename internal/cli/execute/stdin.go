package execute

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// nothingToRead reports whether stdin has no input: it is closed, the person's terminal, or the null device.
func nothingToRead(r io.Reader) bool {
	f, ok := r.(*os.File)
	if r == nil || ok && f == nil {
		return true
	}
	if !ok {
		return false
	}
	fi, err := f.Stat()
	if err != nil || terminal.Is(f) {
		return true
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && fi.Mode()&fs.ModeCharDevice != 0 && os.SameFile(fi, null)
}

// readStdin reads stdin to its end or up to the amount that is sent with a call, whichever comes
// first. When ctx ends it gives up; the read itself can only end with the process.
func (x *execution) readStdin(ctx context.Context) (proposal.Input, error) {
	type read struct {
		head []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		head, err := io.ReadAll(io.LimitReader(x.inv.Stdin, proposal.MaxStdin+1))
		done <- read{head, err}
	}()
	slow := time.NewTimer(proposal.StdinPatience)
	defer slow.Stop()
	for {
		select {
		case <-ctx.Done():
			return proposal.Input{}, exit.Interrupted(context.Cause(ctx))
		case <-slow.C:
			x.tell("reading stdin; end it with Ctrl-D, or use --no-stdin")
		case r := <-done:
			return inputOf(r.head, r.err, x.inv.Stdin)
		}
	}
}

// inputOf returns the input that was read from stdin.
func inputOf(head []byte, err error, rest io.Reader) (proposal.Input, error) {
	switch {
	case err != nil:
		return proposal.Input{}, exit.Failedf(palyra.ReasonMalformedInput, "cannot read stdin: %v", err).
			WithRemedy("use --no-stdin, or give it a file")
	case len(head) > proposal.MaxStdin:
		return proposal.Input{Head: head, Live: true, Rest: rest}, nil
	}
	return proposal.Input{Head: head}, nil
}

// feed passes stdin on to the running command until one of them ends. It waits for no read: a
// command that ended does not wait for its stdin.
func (x *execution) feed(ctx context.Context) {
	pieces := make(chan []byte)
	var failure error // set before pieces is closed
	go func() {
		defer close(pieces)
		failure = inPieces(ctx, io.MultiReader(bytes.NewReader(x.input.Head), x.input.Rest), pieces)
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

// inPieces reads r to its end and sends it piece by piece.
func inPieces(ctx context.Context, r io.Reader, pieces chan<- []byte) error {
	for {
		buf := make([]byte, proposal.FeedSize)
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
