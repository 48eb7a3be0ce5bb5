package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"palyra"
)

// ends are the daemon's ends of a run's streams. On a terminal one descriptor is in and out, and err is nil.
type ends struct {
	in, out, err *os.File
	terminal     bool
}

func (e ends) close() {
	closeAll(e.in, e.err)
	if !e.terminal {
		closeAll(e.out)
	}
}

// pump carries the input and output of a process, and ends it when it must.
type pump struct {
	*runStart
	proc           Process
	stdout, stderr *capture
	emitted, fed   atomic.Int64
	stop           sync.Once
	ended          chan struct{} // nothing of the tree is left
}

func newPump(l *runStart, proc Process) *pump {
	most := outputCap(l.plan.Limits)
	return &pump{runStart: l, proc: proc, ended: make(chan struct{}), stdout: newCapture(most), stderr: newCapture(most)}
}

// wait pumps until nothing of the tree is left and all its output is read.
func (p *pump) wait(ctx context.Context) (Exit, error) {
	var work sync.WaitGroup
	work.Go(func() { p.read(p.own.out, "stdout", p.stdout) })
	if p.own.err != nil {
		work.Go(func() { p.read(p.own.err, "stderr", p.stderr) })
	}
	work.Go(func() { p.follow() })
	work.Go(func() { p.watch(ctx) })
	exit, err := p.proc.Wait()
	p.wake() // before they are told, or the deadline might hit one that already reads the rest
	close(p.ended)
	work.Wait()
	return exit, err
}

// wake makes every goroutine that waits for a descriptor check whether the run is over.
func (p *pump) wake() {
	past := time.Unix(1, 0)
	for _, f := range []*os.File{p.own.out, p.own.err} {
		if f != nil {
			_ = f.SetReadDeadline(past)
		}
	}
	if p.own.in != nil {
		_ = p.own.in.SetWriteDeadline(past) // an error means that it is closed already
	}
}

// watch ends the tree when the context ends.
func (p *pump) watch(ctx context.Context) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		reason := stopCancel
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			reason = stopWall
		}
		p.proc.Stop(reason, p.Grace)
	}
}

const (
	readSize  = 64 << 10
	chunkSize = 32 << 10
	// When all writers of a stream are dead at most a pipe's content is left. It is read while it comes; a
	// stream that stays open and silent has a writer outside the tree, which is not waited for.
	drainMost = 1 << 20
	drainWait = 200 * time.Millisecond
	// How long printed bytes are held back for the rest of a value.
	maskPause, maskPauseTyped = 250 * time.Millisecond, 25 * time.Millisecond
)

// buffers are for reading; the kept part is copied.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// read reads a stream to its end.
func (p *pump) read(f *os.File, stream string, c *capture) {
	kept := buffers.Get().(*[readSize]byte)
	defer buffers.Put(kept)
	buf := kept[:]
	pause := maskPause
	if p.own.terminal { // somebody types
		pause = maskPauseTyped
	}
	masked := p.Mask.Live(taker(func(b []byte) { p.take(stream, c, b) }), pause)
	defer func() { _ = masked.Flush() }() // a taker does not fail
	for last := 0; last < drainMost; {
		final := p.dead()
		if final {
			_ = f.SetReadDeadline(time.Now().Add(drainWait))
		}
		n, err := f.Read(buf)
		p.count(n)
		_, _ = masked.Write(buf[:n])
		if final {
			last += n
		}
		switch {
		case err == nil, !final && errors.Is(err, os.ErrDeadlineExceeded): // woken: the rest follows
		case errors.Is(err, io.EOF), hungUp(err), errors.Is(err, os.ErrDeadlineExceeded):
			return
		default:
			p.Log.Warn("a run's output could not be read to its end", "call", string(p.call), "stream", stream, "err", err)
			return
		}
	}
}

func (p *pump) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// taker is a writer that takes everything.
type taker func([]byte)

// Write implements io.Writer.
func (t taker) Write(b []byte) (int, error) {
	t(b)
	return len(b), nil
}

// count counts printed bytes, and ends a run that prints too many.
func (p *pump) count(n int) {
	if p.emitted.Add(int64(n)); p.overLimit() {
		p.stop.Do(func() { p.proc.Stop(stopOutput, 0) })
	}
}

// take keeps and streams printed bytes, masked. All of them are passed on while the program runs, which is more than
// is kept: a follower, perhaps in a pipe, can have everything.
func (p *pump) take(stream string, c *capture, b []byte) {
	if len(b) == 0 {
		return
	}
	offset := c.total
	c.write(b)
	if p.Streams == nil {
		return
	}
	for chunk := range slices.Chunk(b, chunkSize) {
		p.Streams.Output(p.call, palyra.Chunk{Stream: stream, Offset: offset, Data: slices.Clone(chunk)})
		offset += int64(len(chunk))
	}
}

// overLimit reports whether the run printed more than it may.
func (p *pump) overLimit() bool {
	most := p.plan.Limits.EmittedBytes
	return most > 0 && p.emitted.Load() > most
}
