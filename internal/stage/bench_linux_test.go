package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkKeep is how long it takes to make a run's changed files of 4 KiB the
// workspace's, and how that is to writing the same files anew.
func BenchmarkKeep(b *testing.B) {
	for _, files := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d-files", files), func(b *testing.B) {
			var kept, written time.Duration
			for b.Loop() {
				k, w := benchKeep(b, files)
				kept, written = kept+k, written+w
			}
			b.ReportMetric(float64(kept.Microseconds())/1000/float64(b.N), "keep-ms")
			b.ReportMetric(float64(kept)/float64(written), "keep/write")
		})
	}
}

func benchKeep(b *testing.B, files int) (kept, written time.Duration) {
	e := newBench(b)
	fill := func(top string, with byte) {
		text := make([]byte, 4096)
		for i := range text {
			text[i] = with
		}
		for i := range files {
			dir := filepath.Join(top, fmt.Sprint("d", i/100))
			if i%100 == 0 {
				check(b, os.MkdirAll(dir, 0o755))
			}
			check(b, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), text, 0o644))
		}
	}
	fill(e.ws, 'a')
	g := e.stage()
	begun := time.Now()
	fill(filepath.Join(g.Path(), Upper), 'b')
	written = time.Since(begun)
	begun = time.Now()
	if got := e.keep(g); got.Kept < files {
		b.Fatalf("%+v", got)
	}
	kept = time.Since(begun)
	g.Drop()
	return kept, written
}

// BenchmarkKeepNothing is how long it takes to find that a run changed nothing in a workspace of 100,000 files.
func BenchmarkKeepNothing(b *testing.B) {
	e := newBench(b)
	for i := range 100_000 {
		dir := filepath.Join(e.ws, fmt.Sprint("d", i/100))
		if i%100 == 0 {
			check(b, os.Mkdir(dir, 0o755))
		}
		check(b, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o644))
	}
	var took time.Duration
	for b.Loop() {
		g := e.stage()
		begun := time.Now()
		if got := e.keep(g); len(got.Changes) > 0 {
			b.Fatalf("%+v", got)
		}
		took += time.Since(begun)
		g.Drop()
	}
	b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "keep-ms")
}
