package upstream

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/store"
)

const (
	maxFlowCalls = 64
	maxFlows     = 256
	reachTimeout = 10 * time.Second
)

// flowOwners tells whose connections those of a session are. A server makes them when it likes: all that can be
// known is which calls were under way. So the flows are looked at whenever that changes, and what is new or has
// grown since then belongs to the calls of the time in between.
type flowOwners struct {
	mu    sync.Mutex // guards the fields below; held while the guard lists its flows
	under map[palyra.CallID]*alone
	seen  map[palyra.EgressFlow]*place
}

// alone is a call under way, with the places that were reached while it was the only one.
type alone struct {
	shared bool // another one was under way, too
	flows  map[palyra.EgressFlow]palyra.EgressFlow
	other  int64 // places reached while it was not the only one
}

// place is the state of flows that differ in their bytes only.
type place struct {
	in, out, connections int64
	calls                []palyra.CallID
	more                 int64
}

// plainFlow is a flow without its bytes.
func plainFlow(f palyra.EgressFlow) palyra.EgressFlow {
	f.In, f.Out = 0, 0
	return f
}

// gather adds up flows by place.
func gather(flows []palyra.EgressFlow) map[palyra.EgressFlow]place {
	sums := map[palyra.EgressFlow]place{}
	for _, f := range flows {
		p := sums[plainFlow(f)]
		p.in, p.out, p.connections = p.in+f.In, p.out+f.Out, p.connections+1
		sums[plainFlow(f)] = p
	}
	return sums
}

// look gives the flows since the last time to the calls under way. The caller has the lock.
func (r *flowOwners) look(flows []palyra.EgressFlow) {
	for key, now := range gather(flows) {
		was := r.seen[key]
		if was == nil {
			was = &place{}
			if r.seen == nil {
				r.seen = map[palyra.EgressFlow]*place{}
			}
			r.seen[key] = was
		}
		in, out := now.in-was.in, now.out-was.out
		if in == 0 && out == 0 && now.connections == was.connections {
			continue
		}
		was.in, was.out, was.connections = now.in, now.out, now.connections
		for id, a := range r.under {
			was.note(id)
			a.note(key, in, out)
		}
	}
}

// note adds a call, once.
func (p *place) note(id palyra.CallID) {
	switch {
	case slices.Contains(p.calls, id):
	case len(p.calls) < maxFlowCalls:
		p.calls = append(p.calls, id)
	default:
		p.more++
	}
}

func (a *alone) note(key palyra.EgressFlow, in, out int64) {
	if a.shared {
		a.other++
		return
	}
	f, known := a.flows[key]
	if !known {
		f = key
	}
	f.In, f.Out = f.In+in, f.Out+out
	if a.flows == nil {
		a.flows = map[palyra.EgressFlow]palyra.EgressFlow{}
	}
	a.flows[key] = f
}

// share settles whether a call is the only one, once their number has changed.
func (r *flowOwners) share() {
	for _, a := range r.under {
		a.shared = len(r.under) > 1
	}
}

// begin counts a call in.
func (x *connection) begin(id palyra.CallID) {
	x.reach.mu.Lock()
	defer x.reach.mu.Unlock()
	x.reach.look(x.flows())
	if x.reach.under == nil {
		x.reach.under = map[palyra.CallID]*alone{}
	}
	x.reach.under[id] = &alone{}
	x.reach.share()
}

// callEnded counts a call out, and returns the places that were reached while it was the only one. Places
// reached beside other calls may be theirs: they are counted as not listed.
func (x *connection) callEnded(id palyra.CallID) (flows []palyra.EgressFlow, more int64) {
	x.reach.mu.Lock()
	defer x.reach.mu.Unlock()
	x.reach.look(x.flows())
	a := x.reach.under[id]
	if a == nil {
		return nil, 0
	}
	delete(x.reach.under, id)
	x.reach.share()
	for _, f := range a.flows {
		flows = append(flows, f)
	}
	slices.SortFunc(flows, byPlace)
	return flows, a.other
}

// flows is what goes out for the session so far.
func (x *connection) flows() []palyra.EgressFlow {
	flows, _ := x.flowSource().Flows()
	return flows
}

func (x *connection) flowSource() FlowSource {
	if x.process != nil {
		return x.process
	}
	return x.way
}

func byPlace(a, b palyra.EgressFlow) int {
	return cmp.Or(cmp.Compare(a.Verdict, b.Verdict), strings.Compare(a.Host, b.Host), a.Port-b.Port, strings.Compare(a.Address, b.Address),
		strings.Compare(a.Door, b.Door), strings.Compare(string(a.Grant), string(b.Grant)))
}

// reached is everything that a session reached, for the journal.
func (x *connection) reached(name string) palyra.UpstreamReached {
	flows, more := x.flowSource().Flows()
	x.reach.mu.Lock()
	defer x.reach.mu.Unlock()
	x.reach.look(flows)
	e := palyra.UpstreamReached{Name: name, Start: x.start, Flows: []palyra.UpstreamFlow{}, Omitted: more}
	for key, p := range x.reach.seen {
		f := palyra.UpstreamFlow{EgressFlow: key, Connections: p.connections, Calls: append([]palyra.CallID{}, p.calls...), MoreCalls: p.more}
		f.In, f.Out = p.in, p.out
		e.Flows = append(e.Flows, f)
	}
	slices.SortFunc(e.Flows, func(a, b palyra.UpstreamFlow) int { return byPlace(a.EgressFlow, b.EgressFlow) })
	if over := len(e.Flows) - maxFlows; over > 0 {
		e.Flows, e.Omitted = e.Flows[:maxFlows], e.Omitted+int64(over)
	}
	return e
}

// record journals the places that an ended session reached. They were reached already, so a failure is only logged.
func (r *Registry) record(e palyra.UpstreamReached) {
	if len(e.Flows) == 0 && e.Omitted == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	err := r.DB.Write(ctx, e.Kind(), func(tx *store.Tx) error {
		_, err := r.Journal.Append(tx, e)
		return err
	})
	if err != nil {
		r.Log.Error("what an MCP server reached cannot be journaled", "upstream", e.Name, "flows", len(e.Flows), "error", err)
	}
}
