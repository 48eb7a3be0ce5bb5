package confine

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
)

// BenchmarkLaunch compares, in one run and in turns, a plain fork and exec of
// /bin/true with tier B from a warm cell and from none: the time from the call to
// the end of the program, medians. Filling the pool is off the path and not measured.
func BenchmarkLaunch(b *testing.B) {
	c := config(b)
	warm, cold := c, c
	warm.Warm, warm.StateID, cold.StateID = 2, celltest.StateID(), celltest.StateID()
	ready, none := open(b, warm), open(b, cold)
	s := newStage(b)
	var plain, fromWarm, fromCold []time.Duration
	for b.Loop() {
		celltest.Until(b, "the pool is full", func() bool { return ready.pool.room() == 0 })
		cells.Pause(20*time.Millisecond, nil) // its launchers have made ahead what they can: a cell that waits is idle
		plain = append(plain, celltest.Timed(func() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}))
		j := trueJob(b, s)
		fromWarm = append(fromWarm, celltest.Timed(func() { celltest.Run(b, ready, j) }))
		j = trueJob(b, s)
		celltest.Until(b, "the pool is full", func() bool { return ready.pool.room() == 0 })
		fromCold = append(fromCold, celltest.Timed(func() { celltest.Run(b, none, j) }))
	}
	p, w, c0 := celltest.At(plain, 50), celltest.At(fromWarm, 50), celltest.At(fromCold, 50)
	b.ReportMetric(float64(p.Microseconds()), "plain-µs")
	b.ReportMetric(float64(w)/float64(p), "warm/plain")
	b.ReportMetric(float64(c0)/float64(p), "cold/plain")
}

func trueJob(b *testing.B, s *stage) sandbox.Job {
	j := s.job("/bin/true")
	_ = os.Remove(j.Stdout.Name())
	return j
}
