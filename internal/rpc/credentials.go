package rpc

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"palyra"
)

// maxEnds bounds how many ended credentials are remembered. It only matters for requests that are just being
// let in.
const maxEnds = 1024

// credentials is the work under way, by the credential that it came with: when that ends, so does the work. A
// credential is looked up before it is entered here, and may end between the two; so ends are numbered, and a
// caller that enters says which was the last when the look-up began.
type credentials struct {
	mu    sync.Mutex // guards what follows
	most  int        // that one credential may hold at once
	by    map[string]map[*held]bool
	ends  int64            // how many there were
	last  map[string]int64 // the number of a credential's last end
	floor int64            // ends up to this one are forgotten: they may have been anybody's
}

// held is one request, or one connection.
type held struct {
	cancel context.CancelCauseFunc
	conn   io.Closer
}

var errEnded = palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the credential of this request has ended").
	WithRemedy("ask an operator for another")

var errRevoked = palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "the device was revoked").
	WithRemedy("pair it again under a new name: palyra device pair")

var errCrowded = palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too many requests with this credential are under way").
	WithRemedy("wait for some to end").WithAfter(time.Second)

// begin is the moment from which an end counts for what is entered later.
func (l *credentials) begin() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends
}

// enter adds h under a credential that was looked up after since; leave takes it
// off again. It fails when the credential ended meanwhile, or holds too much.
func (l *credentials) enter(id string, since int64, h *held) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case since < l.floor || since < l.last[id]:
		return nil, errEnded
	case l.most > 0 && len(l.by[id]) >= l.most:
		return nil, errCrowded
	}
	if l.by == nil {
		l.by = map[string]map[*held]bool{}
	}
	if l.by[id] == nil {
		l.by[id] = map[*held]bool{}
	}
	l.by[id][h] = true
	return func() { l.leave(id, h) }, nil
}

func (l *credentials) leave(id string, h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by[id], h)
	if len(l.by[id]) == 0 {
		delete(l.by, id)
	}
}

// ended reports whether a credential ended after since.
func (l *credentials) ended(id string, since int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return since < l.floor || since < l.last[id]
}

// end ends everything under a credential: requests first, so that they can still say why, then connections. Nothing
// under it is entered any more that was looked up before.
func (l *credentials) end(id string) {
	why := errEnded
	if strings.HasPrefix(id, "device:") {
		why = errRevoked
	}
	all := l.strike(id)
	for _, h := range all {
		if h.cancel != nil {
			h.cancel(why)
		}
	}
	for _, h := range all {
		if h.conn != nil { // it is cut off whatever the peer does, once what is on it had its last word; new requests are refused meanwhile
			time.AfterFunc(lastWord, func() { _ = h.conn.Close() })
		}
	}
}

// lastWord is how long a connection whose credential ended stays for its requests to say so.
const lastWord = time.Second

// strike numbers the end and lists the work of the credential. That is ended without the lock, which the
// ending work takes to leave.
func (l *credentials) strike(id string) (all []*held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends++
	if l.last == nil {
		l.last = map[string]int64{}
	}
	if len(l.last) >= maxEnds {
		l.last, l.floor = map[string]int64{}, l.ends
	}
	l.last[id] = l.ends
	for h := range l.by[id] {
		all = append(all, h)
	}
	return all
}

// visit is one HTTP request, from the guard on, and the credentials it is held under. It is its handler's alone.
type visit struct {
	live   *credentials
	door   string
	cancel context.CancelCauseFunc
	under  map[string]func()
}

type visitKey struct{}

// hold puts the visit under a credential that was looked up after since.
func (v *visit) hold(id string, since int64) error {
	if id == "" || v.under[id] != nil {
		return nil
	}
	leave, err := v.live.enter(id, since, &held{cancel: v.cancel})
	if err != nil {
		return err
	}
	if v.under == nil {
		v.under = map[string]func(){}
	}
	v.under[id] = leave
	return nil
}

// finish is the end of the visit.
func (v *visit) finish() {
	for _, leave := range v.under {
		leave()
	}
	v.cancel(nil)
}

// EndCredential ends every request and connection under a credential that the registry has ended: "device:…",
// "token:…", "agent:…", "key:…"; and the browsers that were signed in with it, or have its key.
func (s *Server) EndCredential(id string) {
	s.live.end(id)
	for _, session := range s.console.end(id) {
		s.live.end(session)
	}
}
