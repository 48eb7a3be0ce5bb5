package tool

import (
	"sync"

	"palyra"
)

// maxFlows is how many connections of a run are listed; the others are counted.
const maxFlows = 256

// flowLog collects the connections that a tool reports.
type flowLog struct {
	mu   sync.Mutex
	list []palyra.EgressFlow
	more int64
}

func (l *flowLog) add(f palyra.EgressFlow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == maxFlows {
		l.more++
		return
	}
	l.list = append(l.list, f)
}
