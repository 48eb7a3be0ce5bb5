//go:build linux

package e2e

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// floodRate is ten times what one credential may propose in a second.
const floodRate = 500

// flood is an agent that asks far too often.
type flood struct {
	asked, refused, mute atomic.Int64 // mute: refused without a time to come again
	end                  func()
}

// agentCalled is a client of an agent with a token of its own.
func (d *daemon) agentCalled(name string) *client.Client {
	d.t.Helper()
	_, token, err := d.client(client.OperatorDoor).AddAgent(d.t.Context(), name, "")
	if err != nil {
		d.t.Fatal(err)
	}
	return d.bearer(client.AgentDoor, token)
}

// start floods until end is called.
func (f *flood) start(ctx context.Context, agent *client.Client) {
	ctx, stop := context.WithCancel(ctx)
	const callers = 20
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			tick := time.NewTicker(time.Second * callers / floodRate)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				_, err := agent.Call(ctx, echo("flood"), nil)
				if ctx.Err() != nil {
					return
				}
				f.asked.Add(1)
				if reason(err) == palyra.ReasonRateLimited {
					f.refused.Add(1)
					if palyra.AsError(err).After <= 0 {
						f.mute.Add(1)
					}
				}
			}
		})
	}
	f.end = func() {
		stop()
		wg.Wait()
	}
}

// honest calls n times, no faster than anybody may, and returns how long each took,
// sorted.
func honest(t testing.TB, agent *client.Client, n int) (took []time.Duration) {
	t.Helper()
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for range n {
		<-tick.C
		began := time.Now()
		if out, err := agent.Call(t.Context(), echo("honest"), nil); err != nil || out.Outcome != palyra.OutcomeFinished {
			t.Fatalf("the honest one: %+v, %v", out, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took
}

// One agent asks ten times as often as it may. The other is never turned away, the
// daemon does not grow, and every refusal says when to come again.
func TestAFlood(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	agent, other := d.agentCalled("honest"), d.agentCalled("flooder")
	f := &flood{}
	began := time.Now()
	f.start(t.Context(), other)
	honest(t, agent, 25)
	before := d.resident() // pools and caches are as full as they get
	honest(t, agent, 75)
	f.end()
	most := int64((time.Since(began).Seconds() + 2) * floodRate / 10) // what fills in while it runs, and what a bucket holds
	after := d.resident()
	asked, refused := f.asked.Load(), f.refused.Load()
	t.Logf("%d asked, %d refused; resident %d MiB then %d MiB", asked, refused, before>>20, after>>20)
	if refused < asked/2 || f.mute.Load() != 0 {
		t.Errorf("of %d, %d were refused, %d of them without a time to come again", asked, refused, f.mute.Load())
	}
	if done := asked - refused; done > most {
		t.Errorf("%d were let through, at most %d", done, most)
	}
	if after > before+before/2+(64<<20) {
		t.Errorf("memory grew from %d to %d bytes", before, after)
	}
	s, err := d.client(client.OperatorDoor).Status(t.Context())
	if err != nil || s.Limited["propose"] < refused {
		t.Errorf("the status counts %v, %v", s.Limited, err)
	}
	d.verify()
}

// BenchmarkFlood is what an honest agent notices of one that floods: the same call,
// with the daemon idle and with ten times the limit coming from another credential.
func BenchmarkFlood(b *testing.B) {
	d := newDaemon(b)
	d.mustStart()
	agent, other := d.agentCalled("honest"), d.agentCalled("flooder")
	honest(b, agent, 20)
	var idle, flooded []time.Duration
	var asked int64
	var span time.Duration
	for left := max(b.N, 25); left > 0; left -= 25 { // in turns: what else the machine does meets both
		n := min(left, 25)
		idle = append(idle, honest(b, agent, n)...)
		f := &flood{}
		f.start(b.Context(), other)
		honest(b, agent, 10) // until the flooder's bucket is empty
		before, began := f.asked.Load(), time.Now()
		flooded = append(flooded, honest(b, agent, n)...)
		asked, span = asked+f.asked.Load()-before, span+time.Since(began)
		f.end()
	}
	slices.Sort(idle)
	slices.Sort(flooded)
	for name, took := range map[string][]time.Duration{"idle": idle, "flooded": flooded} {
		b.ReportMetric(float64(percentile(took, 50).Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(percentile(took, 99).Microseconds()), name+"-p99-µs")
	}
	b.ReportMetric(float64(percentile(flooded, 50))/float64(percentile(idle, 50)), "ratio-p50")
	b.ReportMetric(float64(percentile(flooded, 99))/float64(percentile(idle, 99)), "ratio-p99")
	b.ReportMetric(float64(asked)/span.Seconds(), "flood/s")
	b.ReportMetric(0, "ns/op")
}
