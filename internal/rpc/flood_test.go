package rpc_test

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/limit"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"
)

const perSecond = 20

func limited() *limit.Limiter {
	return limit.New(limit.Config{Requests: perSecond, Propose: perSecond, Decide: perSecond, Logins: 5})
}

// A client at ten times its limit is told when to come again; an honest one with
// another credential is never refused, and nothing grows.
func TestFloodHurtsNobodyElse(t *testing.T) {
	w := newWorld(t, limited())
	_, mine := w.apiToken("user:alice", 0, time.Hour, "status.view")
	_, theirs := w.apiToken("user:vic", 0, time.Hour, "status.view")
	d := w.pair("laptop", palyra.RoleOwner)
	browser := w.cookie(w.owner, "user:alice", palyra.RoleOwner)
	m := find(t, "GetStatus")
	flood := palyrav1connect.NewStatusServiceClient(w.unix("operator", true), "http://palyra")
	var refused atomic.Int64
	before := heap()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 * perSecond {
				ctx, info := connect.NewClientContext(t.Context())
				info.RequestHeader().Set("Authorization", "Bearer "+theirs)
				_, err := flood.GetStatus(ctx, &v1.GetStatusRequest{})
				if err == nil {
					continue
				}
				refused.Add(1)
				if e := wire.FromStatus(err); e.Reason != palyra.ReasonRateLimited || e.Code != palyra.Exhausted || e.After <= 0 || e.Remedy == "" {
					t.Errorf("%+v", e)
				}
				var ce *connect.Error
				if !asConnect(err, &ce) || ce.Meta().Get("Retry-After") == "" {
					t.Errorf("no Retry-After: %v", err)
				}
			}
		})
	}
	for range perSecond { // honest ones, within their limit
		if got := w.send("operator", m, m.request(t), bearer(mine)); got != let {
			t.Errorf("another token: %q", got)
		}
		if got := w.send("operator", m, m.request(t), nil); got != let {
			t.Errorf("the daemon's user: %q", got)
		}
		if got, err := w.sendTo(d.http, d.base, m, m.request(t), nil); got != let || err != nil {
			t.Errorf("a device: %q %v", got, err)
		}
		if got := w.looks(browser); got != let {
			t.Errorf("a browser: %q", got)
		}
		msg := m.request(t)
		if got := w.send("operator", m, msg, intent(w.owner.intent(t, m, msg, rpctest.StateID, time.Now()))); got != let {
			t.Errorf("a signer: %q", got)
		}
	}
	wg.Wait()
	if refused.Load() == 0 {
		t.Error("the flood was let in")
	}
	if grown := heap() - before; grown > 16<<20 {
		t.Errorf("%d bytes more", grown)
	}
}

func asConnect(err error, to **connect.Error) bool {
	e, ok := err.(*connect.Error)
	*to = e
	return ok
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Claims empty nobody's buckets: neither forged signatures under the owner's key,
// nor the daemon's user looking around, keep the owner from deciding.
func TestForgedClaimsLockNobodyOut(t *testing.T) {
	w := newWorld(t, limited())
	m := find(t, "DecideApproval")
	forger := key{id: w.owner.id, private: newKey().private}
	var limitedTo int
	for range 10 * perSecond {
		msg := m.request(t)
		switch got := w.send("operator", m, msg, intent(forger.intent(t, m, msg, rpctest.StateID, time.Now()))); got {
		case palyra.ReasonBadSignature:
		case palyra.ReasonRateLimited:
			limitedTo++
		default:
			t.Fatalf("%q", got)
		}
		w.send("operator", find(t, "GetStatus"), find(t, "GetStatus").request(t), nil)
	}
	if limitedTo == 0 {
		t.Error("forgeries go on for ever")
	}
	for range perSecond {
		msg := m.request(t)
		if got := w.send("operator", m, msg, intent(w.owner.intent(t, m, msg, rpctest.StateID, time.Now()))); got != let {
			t.Fatalf("the owner: %q", got)
		}
	}
	// The owner's own flood is the owner's.
	n := 0
	for range 10 * perSecond {
		msg := m.request(t)
		if w.send("operator", m, msg, intent(w.owner.intent(t, m, msg, rpctest.StateID, time.Now()))) == palyra.ReasonRateLimited {
			n++
		}
	}
	if n == 0 {
		t.Error("a signer has no limit")
	}
}

// A signature that comes along does not take an agent out of its own bucket, nor
// does a bad credential get a free ride.
func TestNobodySlipsPastTheirBucket(t *testing.T) {
	w := newWorld(t, limited())
	m := find(t, "ListTools")
	for name, c := range map[string]struct {
		door string
		head func(msg *v1.ListToolsRequest) http.Header
	}{
		"an agent with a signature": {"agent", func(msg *v1.ListToolsRequest) http.Header {
			return intent(newKey().intent(t, m, msg, rpctest.StateID, time.Now()))
		}},
		"a token with a signature": {"operator", func(msg *v1.ListToolsRequest) http.Header {
			h := bearer(w.token)
			h.Set(wire.IntentHeader, newKey().intent(t, m, msg, rpctest.StateID, time.Now()))
			return h
		}},
		"a bad token": {"operator", func(*v1.ListToolsRequest) http.Header { return bearer("plyr_nonsense") }},
	} {
		n := 0
		for range 5 * perSecond {
			msg := &v1.ListToolsRequest{}
			if w.send(c.door, m, msg, c.head(msg)) == palyra.ReasonRateLimited {
				n++
			}
		}
		if n < perSecond {
			t.Errorf("%s: refused %d times", name, n)
		}
	}
}

// The agent of a device, and its flood, leave the device's person alone.
func TestDevicesAgentHasItsOwnBucket(t *testing.T) {
	w := newWorld(t, limited())
	d := w.pair("laptop", palyra.RoleOwner)
	m := find(t, "ListTools")
	n := 0
	for range 5 * perSecond {
		if got, err := w.sendTo(d.http, d.base, m, m.request(t), http.Header{"Palyra-Door": {"agent"}}); err != nil {
			t.Fatal(err)
		} else if got == palyra.ReasonRateLimited {
			n++
		}
	}
	if n == 0 {
		t.Error("the flood was let in")
	}
	for range perSecond {
		if got, err := w.sendTo(d.http, d.base, m, m.request(t), nil); got != let || err != nil {
			t.Fatalf("%q %v", got, err)
		}
	}
}

// One device holds a part of the door's places, whatever it opens; another comes
// in.
func TestOneDeviceDoesNotFillTheDoor(t *testing.T) {
	w := newTightWorld(t, 128, 20*time.Second)
	greedy, honest := w.pair("greedy", palyra.RoleOwner), w.pair("honest", palyra.RoleOwner)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	crowded := make(chan struct{}, 100)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	m := find(t, "GetStatus")
	if got, err := w.sendTo(greedy.http, greedy.base, m, m.request(t), nil); got != let || err != nil { // all over one connection
		t.Fatalf("%q %v", got, err)
	}
	approvals := palyrav1connect.NewApprovalsServiceClient(greedy.http, greedy.base)
	for range 100 {
		wg.Go(func() {
			stream, err := approvals.WatchApprovals(ctx, &v1.WatchApprovalsRequest{})
			if err == nil {
				for stream.Receive() {
				}
				err = stream.Err()
				_ = stream.Close()
			}
			if e := wire.FromStatus(err); e.Reason == palyra.ReasonRateLimited && e.After > 0 {
				crowded <- struct{}{}
			}
		})
	}
	select {
	case <-crowded:
	case <-time.After(60 * time.Second):
		t.Fatal("there is no bound")
	}
	if got, err := w.sendTo(honest.http, honest.base, m, m.request(t), nil); got != let || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// BenchmarkFlood reports how long an honest client's requests take while nobody
// else asks, and while another asks ten times too often.
func BenchmarkFlood(b *testing.B) {
	for _, flooded := range []bool{false, true} {
		name := "idle"
		if flooded {
			name = "flooded"
		}
		b.Run(name, func(b *testing.B) { benchFlood(b, flooded) })
	}
}

// sparing is a limiter that knows one key's owner to be patient.
type sparing struct {
	*limit.Limiter
	key string
}

func (s *sparing) Take(kind, key string) (time.Duration, bool) {
	if key == s.key {
		return 0, true
	}
	return s.Limiter.Take(kind, key)
}

func benchFlood(b *testing.B, flooded bool) {
	const rate = 500
	limits := &sparing{Limiter: limit.New(limit.Config{Requests: rate})}
	w := newWorld(b, limits)
	id, mine := w.apiToken("user:alice", 0, time.Hour, "status.view")
	limits.key = "token:" + id
	_, theirs := w.apiToken("user:vic", 0, time.Hour, "status.view")
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	if flooded {
		wg.Go(func() { w.flood(ctx, theirs, 10*rate) })
	}
	client := palyrav1connect.NewStatusServiceClient(w.unix("operator", true), "http://palyra")
	took := make([]time.Duration, 0, 1<<16)
	for b.Loop() {
		begun := time.Now()
		if err := getStatus(b.Context(), client, mine); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	cancel()
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func getStatus(ctx context.Context, c palyrav1connect.StatusServiceClient, token string) error {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Authorization", "Bearer "+token)
	_, err := c.GetStatus(ctx, &v1.GetStatusRequest{})
	return err
}

// flood asks so often per second until ctx ends.
func (w *world) flood(ctx context.Context, token string, perSecond int) {
	const every = 10 * time.Millisecond
	client := palyrav1connect.NewStatusServiceClient(w.unix("operator", true), "http://palyra")
	tick := time.NewTicker(every)
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	atOnce := make(chan struct{}, 512) // a client has so many requests under way
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for range perSecond * int(every) / int(time.Second) {
			select {
			case atOnce <- struct{}{}:
				wg.Go(func() {
					_ = getStatus(ctx, client, token)
					<-atOnce
				})
			default:
			}
		}
	}
}
