// Package background knows the calls whose programs run in the background: to which session they belong, what they
// printed last, and how they are ended. It has nothing of them when they are over.
//
// Its words are those of docs/words.md.
package background

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"

	"palyra"
)

// Bounds on background processes.
const (
	mostProcesses = 16       // of a payer at a time
	mostKept      = 1 << 20  // bytes of what each printed last
	mostPrinted   = 64 << 10 // in one answer
)

// ErrSessionEnded is the cause when the session that a process belongs to was closed.
var ErrSessionEnded = palyra.Errorf(palyra.Expired, palyra.ReasonSessionClosed, "the session it belonged to was closed")

// Processes are the background processes of all sessions, running or about to.
type Processes struct {
	mu   sync.Mutex // guards byID and what is in it; a leaf lock
	byID map[palyra.CallID]*process
}

type process struct {
	session palyra.SessionID
	payer   string // in whose share it is counted
	end     func(error)
	call    *palyra.Call       // as it was handed to its runner; nil before
	tell    func(*palyra.Call) // says that it runs
	running bool
	recent  []byte // the end of what it printed, of both streams as it came
	printed int64  // bytes, of which recent are the last
}

// New returns Processes without any.
func New() *Processes { return &Processes{byID: map[palyra.CallID]*process{}} }

// Full says why a payer may not start one more.
func (p *Processes) Full(payer string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, x := range p.byID {
		if x.payer == payer {
			n++
		}
	}
	if n < mostProcesses {
		return nil
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "there are %d background processes", n).
		WithRemedy("stop some with %s, or 'palyra processes stop'", palyra.ToolProcessStop)
}

// Add makes a call known, with what ends it.
func (p *Processes) Add(id palyra.CallID, session palyra.SessionID, payer string, end func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byID[id] = &process{session: session, payer: payer, end: end}
}

// Remove forgets a call that is over.
func (p *Processes) Remove(id palyra.CallID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

// Starting notes a process that was handed to its runner, with what is to be told when it runs; false: the call is none.
func (p *Processes) Starting(call *palyra.Call, tell func(*palyra.Call)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.byID[call.ID]
	if x == nil {
		return false
	}
	own := *call // the gate goes on with it
	x.call, x.tell = &own, tell
	return true
}

// Started is told of a process that runs.
func (p *Processes) Started(id palyra.CallID) {
	p.mu.Lock()
	x := p.byID[id]
	known := x != nil && x.call != nil
	if known {
		x.running = true
	}
	p.mu.Unlock()
	if known {
		x.tell(x.call)
	}
}

// Print keeps what a process printed last.
func (p *Processes) Print(id palyra.CallID, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.byID[id]
	if x == nil {
		return
	}
	x.printed += int64(len(b))
	x.recent = append(x.recent, b[max(0, len(b)-mostKept):]...)
	if over := len(x.recent) - mostKept; over > mostKept/4 { // not a copy for every line
		x.recent = append(x.recent[:0], x.recent[over:]...)
	}
}

// OfSession are a session's processes that run now, oldest first.
func (p *Processes) OfSession(session palyra.SessionID) []*palyra.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*palyra.Call
	for _, x := range p.byID {
		if x.running && x.session == session {
			out = append(out, x.call)
		}
	}
	slices.SortFunc(out, func(a, b *palyra.Call) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Printed is a piece of what a process printed, from a byte on, and the size of all of it; false where it does not run.
// A negative byte means the last ones, at most as many as the limit. What is too old is not there: the piece then begins
// with the first that is.
func (p *Processes) Printed(id palyra.CallID, from int64, limit int) (piece palyra.Chunk, size int64, running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.byID[id]
	if x == nil {
		return piece, 0, false
	}
	limit = min(cmp.Or(max(limit, 0), mostPrinted), mostPrinted)
	first := x.printed - int64(len(x.recent))
	if from < 0 {
		from = x.printed - int64(limit)
	}
	from = min(max(from, first), x.printed)
	data := x.recent[from-first:]
	return palyra.Chunk{Offset: from, Data: slices.Clone(data[:min(len(data), limit)])}, x.printed, true
}

// SessionEnded ends the processes of a session that is closed.
func (p *Processes) SessionEnded(session palyra.SessionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.byID {
		if x.session == session {
			x.end(ErrSessionEnded)
		}
	}
}

// Outcome is what a driver gets of a process that runs, and goes on: it is on no record.
func Outcome(call *palyra.Call) (palyra.Outcome, error) {
	text, err := json.Marshal(struct {
		Process palyra.CallID `json:"process_id"`
		State   palyra.State  `json:"state"`
		Publish []string      `json:"publish,omitempty"`
	}{call.ID, palyra.Running, call.Plan.Publish})
	return palyra.Outcome{
		Outcome: palyra.OutcomeRunning, Tool: call.Proposal.Tool, SessionID: call.Proposal.Session, CallID: call.ID,
		ApprovalID: call.Approval, GrantID: call.Grant, PlanDigest: call.Digest, Output: text,
	}, err
}
