package background

import (
	"bytes"
	"fmt"
	"testing"

	"palyra"
)

// A process is told of when it runs, belongs to its session, and ends with it.
func TestProcess(t *testing.T) {
	p := New()
	ended := map[palyra.CallID]error{}
	add := func(id palyra.CallID, session palyra.SessionID) {
		p.Add(id, session, "payer", func(err error) { ended[id] = err })
	}
	add("B", "S")
	add("A", "S")
	add("C", "T")
	told := 0
	for _, id := range []palyra.CallID{"A", "B", "C"} {
		if !p.Starting(&palyra.Call{ID: id}, func(*palyra.Call) { told++ }) {
			t.Errorf("%s is not known", id)
		}
	}
	if len(p.OfSession("S")) != 0 || told != 0 {
		t.Error("a process runs before it was started")
	}
	for _, id := range []palyra.CallID{"A", "B", "C", "D"} {
		p.Started(id)
	}
	if s := p.OfSession("S"); told != 3 || len(s) != 2 || s[0].ID != "A" || s[1].ID != "B" {
		t.Errorf("told %d, %v", told, s)
	}
	if p.Starting(&palyra.Call{ID: "D"}, nil) {
		t.Error("another call is a process")
	}
	p.SessionEnded("S")
	if len(ended) != 2 || ended["A"] != ErrSessionEnded || ended["B"] != ErrSessionEnded {
		t.Errorf("ended: %v", ended)
	}
	p.Remove("A")
	if _, _, runs := p.Printed("A", 0, 1); runs || len(p.OfSession("S")) != 1 {
		t.Error("a process that is over is known")
	}
}

// A payer has a bounded number.
func TestFull(t *testing.T) {
	p := New()
	for i := range mostProcesses {
		if err := p.Full("one"); err != nil {
			t.Fatal(i, err)
		}
		p.Add(palyra.CallID(fmt.Sprint(i)), "S", "one", nil)
	}
	if err := p.Full("one"); palyra.CodeOf(err) != palyra.Exhausted || palyra.AsError(err).Remedy == "" {
		t.Error(err)
	}
	if err := p.Full("two"); err != nil {
		t.Error(err)
	}
}

// Of what was printed the newest part is there, by offsets that count all of it.
func TestPrinted(t *testing.T) {
	p := New()
	p.Add("A", "S", "x", nil)
	line := bytes.Repeat([]byte("x"), 1000)
	for range 3000 {
		p.Print("A", line)
	}
	p.Print("A", []byte("end"))
	const all = 3_000_003
	for _, c := range []struct {
		from  int64
		limit int
		want  palyra.Chunk // Data: how much
	}{
		{-1, 3, palyra.Chunk{Offset: all - 3, Data: make([]byte, 3)}},
		{all, 10, palyra.Chunk{Offset: all}},
		{all + 99, 10, palyra.Chunk{Offset: all}},
		{all - 5, 2, palyra.Chunk{Offset: all - 5, Data: make([]byte, 2)}},
		{-1, 1 << 30, palyra.Chunk{Offset: all - mostPrinted, Data: make([]byte, mostPrinted)}},
	} {
		got, size, runs := p.Printed("A", c.from, c.limit)
		if !runs || got.Offset != c.want.Offset || len(got.Data) != len(c.want.Data) || size != all {
			t.Errorf("%d, %d: %d bytes at %d of %d", c.from, c.limit, len(got.Data), got.Offset, size)
		}
	}
	if got, _, _ := p.Printed("A", 0, 10); got.Offset < all-2*mostKept || got.Offset > all-mostKept || len(got.Data) != 10 {
		t.Errorf("the oldest: %d bytes at %d", len(got.Data), got.Offset)
	}
	if got, _, _ := p.Printed("A", -1, 3); string(got.Data) != "end" {
		t.Errorf("the last: %q", got.Data)
	}
}
