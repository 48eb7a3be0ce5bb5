package bubble

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
)

// BenchmarkLaunch compares, in one run and in turns, a plain fork and exec of
// /bin/true with tier C from a warm cell, and a bare bubblewrap that only unshares
// and mounts a minimal room with tier C from none: the time from the call to the
// end of the program. Filling the pool is off the path and not measured.
func BenchmarkLaunch(b *testing.B) {
	for _, who := range celltest.Residents() {
		for _, dirs := range []int{0, 100} {
			b.Run(fmt.Sprintf("%s/%d-files", who.Name, dirs*100), func(b *testing.B) { benchLaunch(b, who, dirs) })
		}
	}
}

func benchLaunch(b *testing.B, who celltest.Resident, dirs int) {
	c := configOf(b)
	warm, cold := c, c
	warm.Warm, warm.StateID, cold.StateID = 2, c.StateID+"w", c.StateID+"k"
	warm.Log, cold.Log = nil, nil
	cold.Dir += "-cold"
	ready, none := openBackend(b, warm), openBackend(b, cold)
	s := newSite(b, who)
	s.dir(".git/hooks")
	s.file(".git/config", "")
	for i := range dirs {
		s.dir(fmt.Sprint("d", i))
		for n := range 100 {
			s.file(filepath.Join(fmt.Sprint("d", i), fmt.Sprint("f", n)), "")
		}
	}
	runJob(b, ready, s.trueJob())
	full := func() {
		eventually(b, "the pool is full", func() bool { return ready.pool.idle() == 2 })
		cells.Pause(30*time.Millisecond, nil) // a cell that waits has made ahead what it can, and is idle
	}
	var plain, bare, fromWarm, fromCold []time.Duration
	for b.Loop() {
		full()
		plain = append(plain, celltest.Timed(func() { plainTrue(b, who) }))
		j := s.trueJob()
		fromWarm = append(fromWarm, celltest.Timed(func() { runJob(b, ready, j) }))
		full()
		bare = append(bare, celltest.Timed(func() { bareTrue(b, who) }))
		j = s.trueJob()
		fromCold = append(fromCold, celltest.Timed(func() { runJob(b, none, j) }))
	}
	p, w, r, k := celltest.At(plain, 50), celltest.At(fromWarm, 50), celltest.At(bare, 50), celltest.At(fromCold, 50)
	b.ReportMetric(float64(p.Microseconds()), "plain-µs")
	b.ReportMetric(float64(w)/float64(p), "warm/plain")
	b.ReportMetric(float64(r)/float64(p), "bare/plain")
	b.ReportMetric(float64(k)/float64(r), "cold/bare")
	b.ReportMetric(float64(celltest.At(fromWarm, 99))/float64(celltest.At(plain, 99)), "warm/plain-p99")
	b.ReportMetric(float64(celltest.At(fromCold, 99))/float64(celltest.At(bare, 99)), "cold/bare-p99")
}

// plainTrue starts a program as any daemon would, as its user.
func plainTrue(b testing.TB, who celltest.Resident) {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = as(who)
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
}

// bareTrue is the least that anybody does with bubblewrap.
func bareTrue(b testing.TB, who celltest.Resident) {
	cmd := exec.Command("/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink",
		"usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true")
	cmd.SysProcAttr = as(who)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}

func as(who celltest.Resident) *syscall.SysProcAttr {
	if os.Geteuid() != 0 || who.UID == 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID)}}
}

func (s *site) trueJob() sandbox.Job {
	j := s.job("/bin/true")
	_ = os.Remove(j.Stdout.Name())
	return j
}

// idle is how many cells wait.
func (p *pool) idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count()
}
