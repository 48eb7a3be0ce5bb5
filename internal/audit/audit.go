// Package audit holds the tables that follow from the journal against it.
//
// The journal is signed and its tables are not: a row that somebody changed beside the daemon is believed by
// whoever reads it. An audit hears every line, in order, makes of them what the tables must say, and compares. It
// reads the tables of all parts and shares no code with those who write them, so that a fault of theirs is not made
// twice.
//
// Words: said is what the journal says; a finding is the first difference.
//
// Promises: in one view of the store, every row of Held has the lines it follows from and agrees with them in the
// columns that Held names, no row is missing that must be there, and every granted call has ended or may still run.
// Loose says why a table cannot be held, or need not be.
//
// Its words are those of docs/words.md.
package audit

import (
	"fmt"
	"time"

	"palyra"
	"palyra/internal/store"
)

func finding(seq int64, format string, args ...any) *palyra.Finding {
	return &palyra.Finding{Seq: seq, Why: fmt.Sprintf(format, args...)}
}

// Audit is one pass over a journal and its tables.
type Audit struct {
	now      time.Time
	calls    map[palyra.CallID]*callRecord
	sessions map[palyra.SessionID]*sessionRecord
	runs     map[palyra.RunID]*runRecord
	asked    map[palyra.ApprovalID]*question
	votes    map[palyra.ID]palyra.Vote
	leases   map[palyra.LeaseID]*leaseRecord
	keys     map[string]*key
	places   map[string]place
	turns    []activation
	postures map[palyra.Digest]int64
	servers  map[string]*server
	less     int // calls whose lines have no digests of their documents
	access   access
	shelf    shelf
	until    time.Time       // until when calls are observed
	unsigned *palyra.Finding // the first call that was observed, and not held, outside of that
}

// New begins an audit. A call that has not ended is overdue by the time now.
func New(now time.Time) *Audit {
	return &Audit{
		now: now, calls: map[palyra.CallID]*callRecord{}, sessions: map[palyra.SessionID]*sessionRecord{}, runs: map[palyra.RunID]*runRecord{},
		asked: map[palyra.ApprovalID]*question{},
		votes: map[palyra.ID]palyra.Vote{}, leases: map[palyra.LeaseID]*leaseRecord{}, keys: map[string]*key{}, places: map[string]place{},
		postures: map[palyra.Digest]int64{}, servers: map[string]*server{}, access: newAccess(), shelf: newShelf(),
	}
}

// Hear takes in a line.
func (a *Audit) Hear(seq int64, at time.Time, e palyra.Event) *palyra.Finding {
	switch e := e.(type) {
	case *palyra.KeyCreated:
		a.hearKey(&key{seq: seq, Key: e.Key})
	case *palyra.KeyRotated:
		a.hearKey(&key{seq: seq, Key: e.Key, by: e.Old, sig: e.Sig})
		if old := a.keys[e.Old]; old != nil {
			old.retired = true
		}
	case *palyra.WorkspaceAdded:
		a.places[e.Workspace.Path] = place{seq, e.Workspace}
	case *palyra.WorkspaceRemoved:
		delete(a.places, e.Path)
	case *palyra.PolicyActivated:
		a.turns = append(a.turns, activation{seq, *e})
	case *palyra.ObservationChanged:
		if e.Until.Sub(at) > palyra.MaxObserved+observedSlack || e.Until.After(at) && e.Signature == nil {
			return finding(seq, "calls were to be observed for longer than one signature may say, or without one")
		}
		a.until = e.Until
	case *palyra.PostureChecked:
		a.postures[e.Posture] = seq
	case *palyra.RunStarted:
		a.runs[e.Run] = &runRecord{seq: seq, RunStarted: *e}
	case *palyra.RunEnded:
		if r := a.runs[e.Run]; r != nil {
			r.ended = e
		}
	case *palyra.SessionOpened:
		a.sessions[e.Session] = &sessionRecord{seq: seq, SessionOpened: *e}
	case *palyra.SessionLabeled:
		if s := a.sessions[e.Session]; s != nil {
			s.labels = palyra.JoinLabels(s.labels, e.Labels)
		}
	case *palyra.SessionClosed:
		if s := a.sessions[e.Session]; s != nil {
			s.closed = true
		}
	case *palyra.UpstreamAdded, *palyra.UpstreamRemoved, *palyra.UpstreamApproved, *palyra.UpstreamQuarantined:
		a.hearServer(seq, e)
	default:
		if !a.access.hear(seq, e) && !a.shelf.hear(seq, e) {
			return a.hearCall(seq, at, e)
		}
	}
	return nil
}

// Settle looks at the tables, when every line was heard.
func (a *Audit) Settle(tx *store.Tx) (*palyra.Finding, error) {
	for _, check := range []func(*store.Tx) (*palyra.Finding, error){
		a.holdKeys, a.access.hold, a.holdPlaces, a.holdPolicy, a.holdPostures, a.holdServers, a.shelf.hold, a.holdSessions,
		a.holdRuns, a.holdCalls,
		a.holdAttestations,
		a.holdObserved, a.holdQuestions, a.holdDocuments, a.holdVotes, a.holdLeases, a.overdue,
	} {
		if f, err := check(tx); f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

// Notes says which records were checked by less than the promise, when there was no finding.
func (a *Audit) Notes() []string {
	if a.less == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d calls are from before their lines had the digests of what is kept of them: "+
		"plans, arguments and signed outcomes are held, of other outcomes only how they ended", a.less)}
}
