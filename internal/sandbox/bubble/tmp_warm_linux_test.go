package bubble

import (
	"testing"
	"time"

	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
)

func BenchmarkWarmOnly(b *testing.B) {
	who := celltest.Residents()[1]
	c := configOf(b)
	warm := c
	warm.Warm, warm.StateID = 2, c.StateID+"w"
	warm.Log = nil
	ready := openBackend(b, warm)
	s := newSite(b, who)
	s.dir(".git/hooks")
	s.file(".git/config", "")
	runJob(b, ready, s.trueJob())
	var fromWarm []time.Duration
	for b.Loop() {
		eventually(b, "the pool is full", func() bool { return ready.pool.idle() == 2 })
		cells.Pause(15*time.Millisecond, nil)
		j := s.trueJob()
		fromWarm = append(fromWarm, celltest.Timed(func() { runJob(b, ready, j) }))
	}
	b.ReportMetric(float64(celltest.At(fromWarm, 50).Microseconds()), "warm-µs")
	b.ReportMetric(float64(celltest.At(fromWarm, 20).Microseconds()), "warm20-µs")
}
