//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// TestSoak works one daemon without a pause and sees that its memory stays
// flat: two seconds here, an hour with 'make soak'.
func TestSoak(t *testing.T) {
	span := 2 * time.Second
	if s := os.Getenv("PALYRA_SOAK"); s != "" {
		var err error
		if span, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	d := newDaemon(t)
	d.mustStart(unlimited...)
	calls := work(t, d, span/4) // warm: caches and pools are full
	before := d.resident()
	calls += work(t, d, span-span/4)
	after := d.resident()
	t.Logf("%d calls in %v, resident memory %d MiB then %d MiB", calls, span, before>>20, after>>20)
	if after > before+before/2+(64<<20) {
		t.Errorf("memory grew from %d to %d bytes", before, after)
	}
	d.verify()
}

// work makes calls of several kinds for a while and returns how many.
func work(t *testing.T, d *daemon, span time.Duration) int64 {
	t.Helper()
	until := time.Now().Add(span)
	var n atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
		wg.Go(func() {
			for time.Now().Before(until) {
				k := n.Add(1)
				var err error
				if i == 0 {
					file := fmt.Sprintf("f%d", k%100)
					_, err = asked(t.Context(), agent, person, write(d.work, file, fmt.Sprint(k)),
						client.DecideRequest{Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce})
				} else {
					_, err = agent.Call(t.Context(), echo("soak"), nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// resident is the daemon's resident memory in bytes.
func (d *daemon) resident() int64 {
	d.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if err != nil {
				d.t.Fatal(err)
			}
			return n << 10
		}
	}
	d.t.Fatal("no VmRSS")
	return 0
}
