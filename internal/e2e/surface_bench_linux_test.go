package e2e

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"palyra/internal/cli/ptytest"
)

// BenchmarkTerminalUI starts the terminal UI and 'palyra version' in turns, each at a terminal, until it has shown what it is for:
// of the terminal UI the first screen, which says that it connects, and the inbox as the daemon has it.
func BenchmarkTerminalUI(b *testing.B) {
	d := newDaemon(b)
	d.mustStart()
	took := map[string][]time.Duration{}
	rest := time.NewTicker(60 * time.Millisecond) // nobody pays for what another left to be done
	defer rest.Stop()
	const turns = 40 // the first of which do not count
	for n := 0; n < turns || b.Loop(); n++ {
		for name, shows := range map[string]string{"version": `palyra \S+`, "tui": `Inbox`} {
			<-rest.C
			begun := time.Now()
			s := ptytest.Start(b, (&elsewhere{t: b, home: d.home}).command(name), ptytest.Options{Rows: 30, Cols: 100, Patience: waitMost})
			s.Find(shows)
			if n >= 8 {
				took[name] = append(took[name], time.Since(begun))
			}
			if name == "tui" {
				s.Find("nothing waits for you")
				if n >= 8 {
					took["filled"] = append(took["filled"], time.Since(begun))
				}
			}
			_ = s.Cmd.Process.Signal(syscall.SIGKILL)
			_ = s.Cmd.Wait()
		}
	}
	p50 := func(name string) float64 {
		slices.Sort(took[name])
		return float64(percentile(took[name], 50))
	}
	b.ReportMetric(p50("version")/1e6, "version-p50-ms")
	b.ReportMetric(p50("tui")/1e6, "tui-p50-ms")
	b.ReportMetric(p50("filled")/1e6, "filled-p50-ms")
	b.ReportMetric(p50("tui")/p50("version"), "tui/version")
	b.ReportMetric(p50("filled")/p50("version"), "filled/version")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkConsoleList scrolls through 10,000 questions in a real browser.
func BenchmarkConsoleList(b *testing.B) {
	median, p95, _ := scrolled(b)
	b.ReportMetric(float64(median)/1e6, "frame-p50-ms")
	b.ReportMetric(float64(p95)/1e6, "frame-p95-ms")
	b.ReportMetric(0, "ns/op")
}
