package upstream_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"palyra"
)

func flow(host string, in, out int64) palyra.EgressFlow {
	return palyra.EgressFlow{Door: "connect", Host: host, Port: 443, Address: "192.0.2.1", In: in, Out: out, Verdict: "allow"}
}

// lastReached is the latest line about what a server reached.
func (w *world) lastReached() (e palyra.UpstreamReached, n int) {
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	for _, one := range w.journal.events {
		if r, ok := one.(palyra.UpstreamReached); ok {
			e, n = r, n+1
		}
	}
	return e, n
}

// callAs runs a call under an id of its own.
func (w *world) callAs(id palyra.CallID, name string) palyra.Result {
	w.t.Helper()
	c, g := w.grantedAs(id, name)
	return w.launch(w.t.Context(), g, c)
}

// TestReach: connections are those of the calls that were under way when they were
// made or carried something.
func TestReach(t *testing.T) {
	w := newWorld(t)
	held, arrived := make(chan struct{}), make(chan struct{}, 2)
	w.fake.answer = func(c *conn, m message) bool {
		var p struct {
			Name string
		}
		if m.Method != "tools/call" || json.Unmarshal(m.Params, &p) != nil {
			return false
		}
		if p.Name == "add" {
			w.fake.reached(flow("start.test", 1, 2), flow("one.test", 10, 20), flow("one.test", 10, 20))
			return false
		}
		go func() { // until both are under way
			arrived <- struct{}{}
			<-held
			_ = c.result(m.ID, map[string]any{"content": []any{}})
		}()
		return true
	}
	w.fake.reached(flow("start.test", 1, 2))
	w.add("one", true)
	res := w.callAs("ALONE", "mcp.one.add")
	if want := []palyra.EgressFlow{flow("one.test", 20, 40)}; !slices.Equal(res.Egress, want) || res.Omitted != 0 {
		t.Errorf("%+v, %d more", res.Egress, res.Omitted)
	}
	w.fake.reached(flow("start.test", 1, 3), flow("one.test", 10, 20), flow("one.test", 10, 20)) // by itself
	ends := make(chan palyra.Result, 2)
	for _, id := range []palyra.CallID{"LEFT", "RIGHT"} {
		go func() { ends <- w.callAs(id, "mcp.one.sub") }()
		<-arrived
	}
	w.fake.reached(flow("start.test", 1, 3), flow("one.test", 10, 20), flow("one.test", 11, 20),
		palyra.EgressFlow{Door: "dns", Host: "both.test", Verdict: "deny"})
	close(held)
	for range 2 {
		if res := <-ends; len(res.Egress) != 0 || res.Omitted != 2 {
			t.Errorf("%+v, %d more", res.Egress, res.Omitted)
		}
	}
	if _, n := w.lastReached(); n != 0 {
		t.Error("it is journaled before the session is over")
	}
	w.Close()
	e, n := w.lastReached()
	got := map[string]string{}
	for _, f := range e.Flows {
		slices.Sort(f.Calls)
		got[f.Host] = fmt.Sprint(f.Verdict, " ", f.Connections, " ", f.In, " ", f.Out, " ", f.Calls)
	}
	want := map[string]string{
		"start.test": "allow 1 1 3 []", "one.test": "allow 2 21 40 [ALONE LEFT RIGHT]",
		"both.test": "deny 1 0 0 [LEFT RIGHT]",
	}
	if n != 1 || e.Name != "one" || e.Start == "" || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d lines: %v, %+v", n, got, e)
	}
}

// TestReachIsBounded: neither calls nor places fill the journal.
func TestReachIsBounded(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	calls := 0
	w.fake.answer = func(_ *conn, m message) bool {
		if m.Method == "tools/call" {
			calls++
			w.fake.reached(flow("one.test", int64(calls), 0))
		}
		return false
	}
	for i := range 70 {
		if res := w.callAs(palyra.CallID(fmt.Sprint("CALL", i)), "mcp.one.add"); len(res.Egress) != 1 || res.Egress[0].In != 1 {
			t.Fatalf("%+v", res.Egress)
		}
	}
	all := []palyra.EgressFlow{flow("one.test", 70, 0)}
	for i := range 300 {
		all = append(all, flow(fmt.Sprintf("%d.test", i), 1, 1))
	}
	w.fake.reached(all...)
	w.Close()
	e, _ := w.lastReached()
	if len(e.Flows) != 256 || e.Omitted != 45 {
		t.Errorf("%d flows, %d more", len(e.Flows), e.Omitted)
	}
	for _, f := range e.Flows {
		if f.Host == "one.test" && (len(f.Calls) != 64 || f.MoreCalls != 6) {
			t.Errorf("%d calls, %d more", len(f.Calls), f.MoreCalls)
		}
	}
}

// TestReachOfAServerThatFails: one that cannot be spoken to may have gone out all
// the same.
func TestReachOfAServerThatFails(t *testing.T) {
	w := newWorld(t)
	w.fake.reached(flow("out.test", 0, 1<<20))
	w.fake.answer = func(c *conn, _ message) bool { c.Stop(""); return true }
	if _, err := w.Add(t.Context(), stdio("one", true)); err == nil {
		t.Fatal("it was added")
	}
	if e, n := w.lastReached(); n != 1 || len(e.Flows) != 1 || e.Flows[0].Out != 1<<20 || len(e.Flows[0].Calls) != 0 {
		t.Errorf("%d lines: %+v", n, e)
	}
}
