package approval

import (
	"sync"

	"palyra"
	"palyra/internal/store"
)

// shown keeps the digests of open questions' plans as people see them, where values in them are masked. It does not
// outlive the daemon, and neither do the calls: nobody else has their arguments.
type shown struct {
	mu    sync.Mutex // a leaf lock
	plans map[palyra.ApprovalID]palyra.Digest
}

// isPlan reports whether a plan is the one that a digest is of, as far as it can be told: of a masked one it cannot.
func isPlan(p palyra.Plan, d palyra.Digest) bool {
	digest, err := p.Digest()
	return err == nil && (p.Masked || digest == d)
}

func (s *shown) is(id palyra.ApprovalID, d palyra.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d != "" && s.plans[id] == d
}

// keep takes in a question once it is asked.
func (s *shown) keep(tx *store.Tx, id palyra.ApprovalID, d palyra.Digest) {
	tx.OnDone(func(kept bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if kept {
			if s.plans == nil {
				s.plans = map[palyra.ApprovalID]palyra.Digest{}
			}
			s.plans[id] = d
		}
	})
}

// forget drops a question once it is settled.
func (s *shown) forget(tx *store.Tx, id palyra.ApprovalID) {
	tx.OnDone(func(kept bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if kept {
			delete(s.plans, id)
		}
	})
}
