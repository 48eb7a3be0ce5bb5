package journal

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

func rate(b *testing.B, n int) { b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "entries/s") }

// What one commit of one entry writes to the log: the last pages of the entries,
// of their two indices and of the head, a frame each.
const commitBytes = 4 * (4096 + 24)

// floor is a file that is appended to and made durable by nothing but the kernel.
type floor struct {
	f   *os.File
	buf []byte
}

func newFloor(b *testing.B, size int) *floor {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return &floor{f: f, buf: make([]byte, size)}
}

func (f *floor) append(b *testing.B) {
	if _, err := f.f.Write(f.buf); err != nil {
		b.Fatal(err)
	}
	if err := unix.Fdatasync(int(f.f.Fd())); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFdatasync is the floor under every durable append: of an entry's own
// bytes, and of what a commit writes.
func BenchmarkFdatasync(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"entry", 700}, {"commit", commitBytes}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFloor(b, c.size)
			for b.Loop() {
				f.append(b)
			}
			rate(b, b.N)
		})
	}
}

// BenchmarkAppend1 is one writer. Disks are moody, so the floor is measured in
// turns with it: x-fdatasync compares the medians.
func BenchmarkAppend1(b *testing.B) {
	const turn = 16
	f, under := newFixture(b), newFloor(b, commitBytes)
	f.Journal.now = time.Now
	var appends, floors []time.Duration
	timed := func(list *[]time.Duration, do func()) {
		start := time.Now()
		do()
		*list = append(*list, time.Since(start))
	}
	for i := 0; b.Loop(); i++ {
		timed(&appends, func() {
			if _, err := f.Record(context.Background(), event(i)); err != nil {
				b.Fatal(err)
			}
		})
		if i%turn == turn-1 {
			b.StopTimer()
			for range turn {
				timed(&floors, func() { under.append(b) })
			}
			b.StartTimer()
		}
	}
	rate(b, b.N)
	b.ReportMetric(float64(median(appends).Nanoseconds()), "median-ns")
	if len(floors) > 0 {
		b.ReportMetric(float64(median(floors).Nanoseconds()), "floor-ns")
		b.ReportMetric(float64(median(appends))/float64(median(floors)), "x-fdatasync")
	}
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

func BenchmarkAppend128(b *testing.B) {
	const writers = 128
	f := newFixture(b)
	f.Journal.now = time.Now
	var next atomic.Int64
	b.ResetTimer()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				if _, err := f.Record(context.Background(), event(int(i))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	rate(b, b.N)
}

// BenchmarkEncode is the part of an append that runs outside the transaction.
func BenchmarkEncode(b *testing.B) {
	c := newCatalogue()
	i := 0
	for b.Loop() {
		if _, err := c.draft(event(i)); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkVerify(b *testing.B) {
	const entries = 200_000
	f := newFixture(b)
	for i := 0; i < entries; {
		batch := make([]palyra.Event, 0, 1000)
		for range cap(batch) {
			batch = append(batch, event(i))
			i++
		}
		if _, err := f.Record(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	f.shut(b)
	b.ResetTimer()
	for range b.N {
		if r, err := VerifyFile(context.Background(), f.path, f.keys(), nil); err != nil {
			b.Fatal(r, err)
		}
	}
	rate(b, b.N*entries)
}
