package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"palyra/internal/cell"
)

// BenchmarkWarm measures a run in a cell that waits, from the order to the last
// report, over a plain start of the same program: a ratio of medians of one run.
func BenchmarkWarm(b *testing.B) {
	var plain, started, ended []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(begin))
		s, e := warm(b)
		started, ended = append(started, s), append(ended, e)
	}
	b.ReportMetric(ratio(ended, plain), "x-plain")
	b.ReportMetric(ratio(started, plain), "x-plain-to-start")
}

// ratio is that of the medians.
func ratio(a, b []time.Duration) float64 { return float64(median(a)) / float64(median(b)) }

func median(a []time.Duration) time.Duration {
	slices.Sort(a)
	return a[len(a)/2]
}

// warm runs /bin/true in a cell with the rules of an everyday run.
func warm(b *testing.B) (started, ended time.Duration) {
	ours, theirs, err := cell.Pair()
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command(built, "supervise")
	c.Env, c.ExtraFiles = []string{}, []*os.File{theirs}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	_ = theirs.Close()
	conn, err := cell.NewConn(ours)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(); _ = c.Wait() }()
	var r cell.Report
	if _, err := conn.Recv(&r); err != nil {
		b.Fatal(err)
	}
	return runTrue(b, cell.Orders{Conn: conn}, cell.WriteSpec)
}

// runTrue runs /bin/true in a cell that waits.
func runTrue(b *testing.B, conn speaker, write func(cell.Spec) (*os.File, error)) (started, ended time.Duration) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	<-time.After(20 * time.Millisecond) // the launcher is as ready as a warm one
	begin := time.Now()
	spec, err := write(everyday())
	if err != nil {
		b.Fatal(err)
	}
	n := int(null.Fd())
	if err := conn.Send(cell.Order{Kind: cell.OrderRun}, int(spec.Fd()), n, n, n); err != nil {
		b.Fatal(err)
	}
	_ = spec.Close()
	var r cell.Report
	for r.Kind != cell.ReportEnded {
		r = cell.Report{}
		if _, err := conn.Recv(&r); err != nil || r.Kind == cell.ReportFailed {
			b.Fatalf("%+v, %v", r, err)
		}
		if r.Kind == cell.ReportStarted {
			started = time.Since(begin)
		}
	}
	return started, time.Since(begin)
}

// everyday has as many rules and as long a filter as tier B uses.
func everyday() cell.Spec {
	s := open("/bin/true")
	for range 60 {
		s.Landlock.Rules = append(s.Landlock.Rules, cell.Rule{Path: "/usr", Access: 13}, cell.Rule{Path: "/usr/bin/env", Access: 4})
	}
	s.Filter = nil
	for range 500 {
		s.Filter = append(s.Filter, 0, 0, 0, 0, 0, 0, 0, 0) // load immediate
	}
	s.Filter = append(s.Filter, allowAll...)
	return s
}
