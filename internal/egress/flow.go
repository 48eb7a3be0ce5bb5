package egress

import (
	"sync"
	"sync/atomic"

	"palyra"
)

// The doors, as flows name them.
const (
	doorConnect = "connect"
	doorHTTP    = "http"
	doorSOCKS   = "socks"
	doorDirect  = "direct"
	doorDNS     = "dns"
	doorFetch   = "fetch"
)

const (
	allow = "allow"
	deny  = "deny"
)

// flow is the record of one connection: in is what came from outside.
type flow struct {
	record  palyra.EgressFlow
	in, out atomic.Int64
}

// ledger keeps a session's flows. What a run does cannot push a host out of it:
// when the list is full, further flows are added to an earlier one of the same
// kind and counted, and refusals, which a run can make at will, have a part of
// the list to themselves.
type ledger struct {
	most int

	mu      sync.Mutex // guards the fields below; a leaf lock
	allowed []*flow
	denied  []*flow
	last    map[palyra.EgressFlow]*flow // by record, without bytes
	omitted int64
}

func newLedger(most int) *ledger {
	return &ledger{most: most, last: map[palyra.EgressFlow]*flow{}}
}

// start records a connection that was let through. The flow may be one that
// exists, and its counters are shared then.
func (l *ledger) start(door string, t target, address string) *flow {
	r := palyra.EgressFlow{Door: door, Host: t.host.String(), Port: t.port, Address: address, Verdict: allow}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.last[r]; f != nil && len(l.allowed) >= l.most {
		l.omitted++
		return f
	}
	f := &flow{record: r}
	if len(l.allowed) >= 2*l.most {
		l.omitted++
		return f
	}
	l.allowed, l.last[r] = append(l.allowed, f), f
	return f
}

// refuse records a connection that was not let through and reports whether it is
// the first of its kind.
func (l *ledger) refuse(door, host string, port int) bool {
	r := palyra.EgressFlow{Door: door, Host: host, Port: port, Verdict: deny}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[r] != nil || len(l.denied) >= l.most {
		l.omitted++
		return false
	}
	f := &flow{record: r}
	l.denied, l.last[r] = append(l.denied, f), f
	return true
}

// list returns everything, what was let through first.
func (l *ledger) list() ([]palyra.EgressFlow, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]palyra.EgressFlow, 0, len(l.allowed)+len(l.denied))
	for _, list := range [][]*flow{l.allowed, l.denied} {
		for _, f := range list {
			r := f.record
			r.In, r.Out = f.in.Load(), f.out.Load()
			out = append(out, r)
		}
	}
	return out, l.omitted
}
