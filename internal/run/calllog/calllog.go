// Package calllog keeps what the followers of a call under way hear, in order: its events, and what it prints. It does
// no locking.
package calllog

import (
	"cmp"
	"slices"

	"palyra"
)

// What a piece of output costs.
const (
	MaxPiece = 32 << 10 // pieces are put together up to this
	PerPiece = 128      // beside its bytes
)

// Log is what a call's followers hear. The zero Log is empty.
type Log struct {
	items []Item // in the order of their numbers; what was forgotten is missing
	next  int    // number of the next item
}

// Item is an event, or else a piece of output.
type Item struct {
	Happened *Happened
	Out      palyra.Chunk
	number   int
}

// Happened is an event and the call as it then stood, which must not be changed.
type Happened struct {
	Call  *palyra.Call
	Event palyra.Event // nil: the call runs from here on
}

// Mark is a place in a log. The last piece of output may still grow.
type Mark struct{ item, at int }

// Compare orders marks.
func (m Mark) Compare(o Mark) int {
	return cmp.Or(cmp.Compare(m.item, o.item), cmp.Compare(m.at, o.at))
}

// After reports whether a mark comes after another one.
func (m Mark) After(o Mark) bool { return m.Compare(o) > 0 }

// Tell puts an event at the end.
func (l *Log) Tell(c *palyra.Call, e palyra.Event) {
	l.add(Item{Happened: &Happened{c, e}})
}

func (l *Log) add(x Item) {
	x.number = l.next
	l.items = append(l.items, x)
	l.next++
}

// Print puts a chunk at the end, onto the last piece where it follows from it, and returns what that costs.
func (l *Log) Print(x palyra.Chunk) int64 {
	if i := len(l.items) - 1; i >= 0 && l.items[i].Happened == nil {
		last := &l.items[i].Out
		n := len(last.Data)
		if last.Stream == x.Stream && last.Offset+int64(n) == x.Offset && n+len(x.Data) <= MaxPiece {
			before := cap(last.Data)
			last.Data = append(last.Data, x.Data...)
			return int64(cap(last.Data) - before)
		}
	}
	own := make([]byte, len(x.Data)) // no longer than it is: what it costs is what was asked for
	copy(own, x.Data)
	x.Data = own
	l.add(Item{Out: x})
	return int64(cap(own)) + PerPiece
}

// Since returns what the log has from m on, and the place after it. What it returns must not be changed.
func (l *Log) Since(m Mark) ([]Item, Mark) {
	var news []Item
	from, _ := slices.BinarySearchFunc(l.items, m.item, func(x Item, n int) int { return cmp.Compare(x.number, n) })
	for _, x := range l.items[from:] {
		if x.number != m.item {
			m.at = 0
		}
		if x.Happened != nil {
			news, m = append(news, x), Mark{item: x.number + 1}
			continue
		}
		n := len(x.Out.Data)
		if n > m.at {
			x.Out.Offset += int64(m.at)
			x.Out.Data = x.Out.Data[m.at:n:n]
			news = append(news, x)
		}
		m = Mark{x.number, n}
	}
	return news, m
}

// End is the place after everything.
func (l *Log) End() Mark {
	_, end := l.Since(Mark{item: max(0, l.next-1)})
	return end
}

// Forget drops the pieces of output before a place, and returns what they had cost.
func (l *Log) Forget(before Mark) (freed int64) {
	l.items = slices.DeleteFunc(l.items, func(x Item) bool {
		if x.Happened != nil || x.number >= before.item {
			return false
		}
		freed += int64(cap(x.Out.Data)) + PerPiece
		return true
	})
	return freed
}
