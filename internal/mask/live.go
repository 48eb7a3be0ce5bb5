package mask

import (
	"io"
	"sync"
	"time"
)

// Live masks what somebody watches while it is written. What it holds back, and for how long, follows from nothing but how
// much was written and when: otherwise whoever has bytes printed, and sees when they come, could try values out letter by
// letter. The price: of a value that is written in pieces with pauses between them the earlier pieces are seen; the rest
// of it is masked.
type Live struct {
	mu      sync.Mutex
	m       *Masker
	to      io.Writer
	pause   time.Duration
	timer   *time.Timer
	held    []byte    // what a form may begin in
	written int       // of held: bytes that are gone already
	since   time.Time // of the first byte that is not
	failed  error
}

// longestHold is for how many pauses something is held back while more and more comes.
const longestHold = 4

// Live returns one that writes to w. What was written is passed on when nothing more came for a pause.
func (m *Masker) Live(w io.Writer, pause time.Duration) *Live {
	l := &Live{m: m, to: w, pause: pause}
	l.timer = time.AfterFunc(pause, l.late)
	l.timer.Stop()
	return l
}

// Write implements io.Writer. An error is that of the writer behind it, and stays.
func (l *Live) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.m.current(); t != nil {
		if len(l.held) == l.written {
			l.since = time.Now()
		}
		l.held = append(l.held, b...)
		if time.Since(l.since) >= longestHold*l.pause {
			l.letGo(t, len(l.held))
		} else {
			l.letGo(t, max(0, len(l.held)-t.longest+1))
		}
		if len(l.held) > l.written {
			l.timer.Reset(l.pause)
		} else {
			l.timer.Stop()
		}
	} else { // nothing is known, or not any more
		l.letGo(nil, len(l.held))
		l.held, l.written = nil, 0
		l.pass(b)
	}
	if l.failed != nil {
		return 0, l.failed
	}
	return len(b), nil
}

// late passes on what was held back for a pause.
func (l *Live) late() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letGo(l.m.current(), len(l.held))
}

// Flush writes what is held back: nothing follows it.
func (l *Live) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	l.letGo(l.m.current(), len(l.held))
	l.held, l.written = nil, 0
	return l.failed
}

func (l *Live) pass(b []byte) {
	if len(b) > 0 && l.failed == nil {
		_, l.failed = l.to.Write(b)
	}
}

// letGo writes the first limit bytes that are held, with names for the values that begin there. What a value may have begun
// in stays known, also when it is written.
func (l *Live) letGo(t *table, limit int) {
	b, was, done, end := l.held, l.written, 0, 0
	passTo := func(to int) {
		if from := max(done, was); from < to {
			l.pass(b[from:to])
		}
		done = max(done, to)
	}
	for at := 0; t != nil && at < limit; {
		next := t.next(b[:min(len(b), limit+window-1)], at)
		if next < 0 {
			break
		}
		m := t.at(b[next:])
		if at = next + 1; m.end > 0 && next+m.end > was { // else it was not known when it was written
			passTo(next)
			l.pass(t.marks[m.mark])
			end = next + m.end
			done, at = end, end
		}
	}
	passTo(limit)
	if done > was {
		l.since = time.Now()
	}
	from := len(b)
	if t != nil {
		from = max(end, len(b)-t.longest+1, 0)
	}
	l.held, l.written = b[from:], max(0, max(done, was)-from)
}
