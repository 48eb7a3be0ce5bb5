package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// BenchmarkRoom measures a room's cold start over a bare start of bubblewrap with
// the same mounts, and a run in a room that waits over a plain start of the same
// program: ratios of medians of one run.
func BenchmarkRoom(b *testing.B) {
	for _, sealed := range []int{0, 20, 500} {
		b.Run("seals="+strconv.Itoa(sealed), func(b *testing.B) { benchRoom(b, sealed) })
	}
}

func benchRoom(b *testing.B, sealed int) {
	dir := b.TempDir()
	r := plain(dir)
	r.Range, r.Listeners = synthetic, everyDoor()
	r.Hide = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger", "/proc/acpi", "/proc/scsi"}
	r.ReadOnly, r.Filter = []string{"/proc/sys"}, everyday().Filter
	for i := range sealed {
		path := filepath.Join(dir, "s"+strconv.Itoa(i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			b.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			b.Fatal(err)
		}
		r.Seals = append(r.Seals, cell.Seal{Path: filepath.Base(path), ReadOnly: true, Dev: st.Dev, Ino: st.Ino})
	}
	template, _, _ := enterRoom(b, who{}, dir)
	var plainly, bare, cold, started, ended, tierB []time.Duration
	for b.Loop() {
		plainly = append(plainly, timed(b, exec.Command("/bin/true")))
		bare = append(bare, timed(b, exec.Command(bubblewrap, bareArgs(dir)...)))
		c, s, e := oneRoom(b, template, r)
		_, other := warm(b)
		tierB = append(tierB, other)
		cold, started, ended = append(cold, c), append(started, s), append(ended, e)
	}
	b.ReportMetric(ratio(cold, bare), "built-x-bwrap")
	b.ReportMetric(ratio(ended, plainly), "warm-x-plain")
	b.ReportMetric(ratio(started, plainly), "warm-x-plain-to-start")
	b.ReportMetric(ratio(ended, tierB), "warm-x-tier-b")
	b.ReportMetric(ratio(bare, plainly), "bwrap-x-plain")
	b.ReportMetric(float64(median(cold).Microseconds()), "built-µs")
	b.ReportMetric(float64(median(ended).Microseconds()), "warm-µs")
}

// bareArgs are bubblewrap's to run /bin/true in the same room.
func bareArgs(dir string) []string {
	args := bwrapArgs(who{}, dir)
	return append(args[:slices.Index(args, "--")], "--", "/bin/true")
}

func timed(b *testing.B, c *exec.Cmd) time.Duration {
	begin := time.Now()
	if err := c.Run(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// oneRoom builds a room and runs /bin/true in it.
func oneRoom(b *testing.B, template *cell.Template, r cell.Room) (built, started, ended time.Duration) {
	begin := time.Now()
	ours, theirs, err := cell.Pair()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	conn, err := cell.NewConn(ours)
	if err != nil {
		b.Fatal(err)
	}
	line := cell.NewLine(conn)
	defer func() { _ = line.Close() }()
	made, first, err := template.Build(b.Context(), r, theirs, nil, nil)
	if err != nil || first.Kind != cell.ReportBuilt {
		b.Fatalf("%+v, %v", first, err)
	}
	defer cell.CloseAll(append([]*os.File{made.First}, made.Doors...))
	var ready cell.Report
	if err := line.Send(cell.Order{Kind: cell.OrderConfine}); err != nil {
		b.Fatal(err)
	}
	if _, err := line.Recv(&ready); err != nil || ready.Kind != cell.ReportReady {
		b.Fatalf("%+v, %v", ready, err)
	}
	built = time.Since(begin)
	started, ended = runTrue(b, line, cell.WriteImage)
	return built, started, ended
}
