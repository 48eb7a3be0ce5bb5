package confine

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
)

// BenchmarkLaunch compares, in one run and in turns, a plain fork and exec of
// /bin/true with tier B from a warm cell and from none: the time from the call to
// the end of the program, medians. Filling the pool is off the path and not measured.
func BenchmarkLaunch(b *testing.B) {
	c := config(b)
	warm, cold := c, c
	warm.Warm, warm.StateID, cold.StateID = 2, stateOf(), stateOf()
	ready, none := open(b, warm), open(b, cold)
	s := newStage(b)
	var plain, fromWarm, fromCold []time.Duration
	for b.Loop() {
		until(b, "the pool is full", func() bool { return ready.pool.room() == 0 })
		cells.Pause(20*time.Millisecond, nil) // its launchers have made ahead what they can: a cell that waits is idle
		plain = append(plain, timed(func() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}))
		j := trueJob(b, s)
		fromWarm = append(fromWarm, timed(func() { run(b, ready, j) }))
		j = trueJob(b, s)
		until(b, "the pool is full", func() bool { return ready.pool.room() == 0 })
		fromCold = append(fromCold, timed(func() { run(b, none, j) }))
	}
	p, w, c0 := median(plain), median(fromWarm), median(fromCold)
	b.ReportMetric(float64(p.Microseconds()), "plain-µs")
	b.ReportMetric(float64(w)/float64(p), "warm/plain")
	b.ReportMetric(float64(c0)/float64(p), "cold/plain")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func timed(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}

func trueJob(b *testing.B, s *stage) sandbox.Job {
	j := s.job("/bin/true")
	_ = s.out.Close()
	_ = os.Remove(s.out.Name())
	return j
}
