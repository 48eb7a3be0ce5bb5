package egress

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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
	doorOpened  = "opened" // any of the above, where TLS was opened
)

// everyone stands for all the hosts beyond the listed ones.
const everyone = "*"

// flow is the record of one connection; in counts the bytes from outside.
type flow struct {
	record  palyra.EgressFlow
	in, out atomic.Int64
	opened  atomic.Bool
}

// open notes that the TLS of the connection is opened.
func (f *flow) open() { f.opened.Store(true) }

// ledger keeps a session's flows. A run cannot push anything out of it. Connections that came about, failed ones
// and refusals are kept apart, because a run can make the latter two at will. When the first list is full,
// connections to one host and port are added up in a flow without address and door. Hosts that only a suffix covers
// can be made up at will too: those beyond the limit are added up as one. So every byte is on record, and with its
// host for every host that the plan or an answer names.
type ledger struct {
	most int

	mu      sync.Mutex // guards the fields below; a leaf lock
	allowed []*flow
	summed  map[palyra.EgressFlow]*flow // keyed by the record without its bytes
	wild    int                         // how many of summed only a suffix covers
	failed  []palyra.EgressFlow
	denied  []palyra.EgressFlow
	seen    map[palyra.EgressFlow]bool // records in failed and denied
	omitted int64
}

func newLedger(most int) *ledger {
	return &ledger{most: most, summed: map[palyra.EgressFlow]*flow{}, seen: map[palyra.EgressFlow]bool{}}
}

// start records a connection that was let through and came about. It may return an existing flow,
// whose counters are then shared.
func (l *ledger) start(door string, p permit, address string) *flow {
	r := palyra.EgressFlow{Door: door, Host: p.host.String(), Port: p.port, Address: address, Verdict: palyra.FlowAllowed, Grant: p.grant()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.allowed) < l.most {
		f := &flow{record: r}
		l.allowed = append(l.allowed, f)
		return f
	}
	l.omitted++
	r.Door, r.Address = "", ""
	if l.summed[r] == nil && p.wild {
		if l.wild >= l.most {
			r.Host, r.Port, r.Grant = everyone, 0, ""
		}
		l.wild++
	}
	if l.summed[r] == nil {
		l.summed[r] = &flow{record: r}
	}
	return l.summed[r]
}

// fail records a connection that was let through but failed.
func (l *ledger) fail(door string, p permit) {
	l.note(&l.failed, palyra.EgressFlow{Door: door, Host: p.host.String(), Port: p.port, Verdict: palyra.FlowAllowed, Grant: p.grant()})
}

// refuse records a refused connection and reports whether it is the first of its kind.
func (l *ledger) refuse(door, host string, port int) bool {
	return l.note(&l.denied, palyra.EgressFlow{Door: door, Host: host, Port: port, Verdict: palyra.FlowDenied})
}

// note lists a record without bytes, each kind once.
func (l *ledger) note(list *[]palyra.EgressFlow, r palyra.EgressFlow) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[r] || len(*list) >= l.most {
		l.omitted++
		return false
	}
	*list, l.seen[r] = append(*list, r), true
	return true
}

// list returns all flows, those that were let through first.
func (l *ledger) list() ([]palyra.EgressFlow, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := slices.SortedFunc(maps.Values(l.summed), func(a, b *flow) int {
		return cmp.Or(strings.Compare(a.record.Host, b.record.Host), a.record.Port-b.record.Port,
			strings.Compare(string(a.record.Grant), string(b.record.Grant)))
	})
	var out []palyra.EgressFlow
	for _, f := range slices.Concat(l.allowed, sums) {
		r := f.record
		r.In, r.Out = f.in.Load(), f.out.Load()
		if f.opened.Load() && r.Door != "" {
			r.Door = doorOpened
		}
		out = append(out, r)
	}
	return slices.Concat(out, l.failed, l.denied), l.omitted
}
