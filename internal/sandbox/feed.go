package sandbox

import (
	"slices"
	"strings"
	"sync"

	"palyra"
)

// feedMost is the most bytes that wait to be read by the program. Above it the feeding caller
// waits, and with the bytes the signals behind them; a cancel does not.
const feedMost = 1 << 20

// follow passes on the caller's input, in order. Bytes wait in a queue of their own, so that a
// program that does not read can still be interrupted.
func (p *pump) follow() {
	var q queue
	if len(p.input) > 0 {
		q.add(p.input)
		q.end()
	}
	chunks, feed := make(chan []byte), p.feed
	var writer sync.WaitGroup
	writer.Go(func() { p.write(chunks) })
	defer writer.Wait()
	defer close(chunks)
	for {
		in := feed
		if q.size >= feedMost {
			in = nil
		}
		var out chan []byte
		if len(q.chunks) > 0 {
			out = chunks
		}
		select {
		case <-p.ended:
			return
		case out <- q.first():
			q.shift()
		case f, ok := <-in:
			if !ok { // the feeding has ended
				feed, f = nil, palyra.Feed{End: true}
			}
			p.pass(&q, f)
		}
	}
}

// pass handles one event. It refuses bytes that the plan does not bind.
func (p *pump) pass(q *queue, f palyra.Feed) {
	if p.live() {
		if len(f.Data) > 0 {
			q.add(f.Data)
		}
		if f.End {
			q.end()
		}
	}
	if f.Signal != "" {
		p.signal(f.Signal)
	}
	const most = 1<<16 - 1
	if p.plan.Terminal && f.Rows > 0 && f.Cols > 0 && f.Rows <= most && f.Cols <= most {
		if err := p.proc.Resize(f.Rows, f.Cols); err != nil {
			p.Log.Debug("a terminal was not resized", "call", string(p.call), "err", err)
		}
	}
}

// signals are those that a caller may send. STOP is not among them: a stopped program would use up
// its time limit with nobody seeing why.
var signals = []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH", "SIGTSTP"}

func (p *pump) signal(name string) {
	name = "SIG" + strings.TrimPrefix(name, "SIG")
	if !slices.Contains(signals, name) {
		p.Log.Warn("a signal that callers may not send was dropped", "call", string(p.call), "signal", show(name))
		return
	}
	if err := p.proc.Signal(name); err != nil {
		p.Log.Debug("a signal was not delivered", "call", string(p.call), "signal", name, "err", err)
	}
}

// write writes chunks to the program's stdin; an empty one is its end. A program that closed its
// stdin misses the rest, as it would in a shell.
func (p *pump) write(chunks <-chan []byte) {
	deaf, line := p.own.in == nil, true
	for b := range chunks {
		if deaf {
			continue
		}
		if len(b) == 0 {
			p.closeInput(line)
			deaf = true
			continue
		}
		n, err := p.own.in.Write(b)
		p.fed.Add(int64(n))
		deaf, line = err != nil, b[len(b)-1] == '\n'
	}
}

// closeInput ends stdin. For a terminal it sends the end-of-file character, once on an empty line
// and twice on one that was begun.
func (p *pump) closeInput(line bool) {
	if !p.own.terminal {
		_ = p.own.in.Close()
		return
	}
	const eot = "\x04\x04"
	n := len(eot)
	if line {
		n--
	}
	_, _ = p.own.in.WriteString(eot[:n]) // the program is gone, and its stdin too
}

// queue holds bytes for a program; an empty chunk marks their end, and nothing comes after it.
type queue struct {
	chunks [][]byte
	size   int
	done   bool
}

func (q *queue) add(b []byte) {
	if !q.done {
		q.chunks, q.size = append(q.chunks, b), q.size+len(b)
	}
}

func (q *queue) end() {
	if !q.done {
		q.chunks, q.done = append(q.chunks, nil), true
	}
}

func (q *queue) first() []byte {
	if len(q.chunks) == 0 {
		return nil
	}
	return q.chunks[0]
}

func (q *queue) shift() { q.size, q.chunks = q.size-len(q.chunks[0]), q.chunks[1:] }
