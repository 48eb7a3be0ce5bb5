package calllog

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"palyra"
)

// However output arrives, whenever it is read and forgotten, each stream reads as it was written, and what it costs is
// given back.
func TestSinceTellsEverythingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Log
		var m Mark
		want, got := map[string][]byte{}, map[string][]byte{}
		events, cost := 0, int64(0)
		read := func() {
			var news []Item
			news, m = l.Since(m)
			for _, x := range news {
				if x.Happened != nil {
					events--
					continue
				}
				if x.Out.Offset != int64(len(got[x.Out.Stream])) {
					t.Fatalf("%s goes on at %d, not %d", x.Out.Stream, x.Out.Offset, len(got[x.Out.Stream]))
				}
				got[x.Out.Stream] = append(got[x.Out.Stream], x.Out.Data...)
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				read()
				if m != l.End() {
					t.Fatalf("at %v after everything, the end is %v", m, l.End())
				}
			case 4:
				cost -= l.Forget(m)
			case 1:
				l.Tell(&palyra.Call{}, nil)
				events++
			default:
				s := rapid.SampledFrom([]string{"stdout", "stderr"}).Draw(t, "stream")
				data := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "data")
				cost += l.Print(palyra.Chunk{Stream: s, Offset: int64(len(want[s])), Data: data})
				want[s] = append(want[s], data...)
				clear(data) // the runner may use its buffer again
			}
		}
		read()
		read()
		for s := range want {
			if !bytes.Equal(want[s], got[s]) {
				t.Fatalf("%s: %q, want %q", s, got[s], want[s])
			}
		}
		l.Tell(&palyra.Call{}, nil)
		_, end := l.Since(m)
		cost -= l.Forget(end)
		if cost != 0 || slices.ContainsFunc(l.items, func(x Item) bool { return x.Happened == nil }) {
			t.Fatalf("%d bytes are still counted when everything was forgotten", cost)
		}
		if events != 0 {
			t.Fatalf("%d events untold", events)
		}
	})
}
