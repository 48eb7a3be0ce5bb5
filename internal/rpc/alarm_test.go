package rpc

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// lines keeps what an alarm records.
type lines struct {
	mu  sync.Mutex
	all []palyra.Event
}

func (l *lines) record(e palyra.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

func (l *lines) counts() (n int, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		switch e := e.(type) {
		case palyra.AlertRaised:
			total += e.Count
		case palyra.DoorFlood:
			total += e.Count
		}
	}
	return len(l.all), total
}

// Ten minutes of a thousand tries a second: a handful of lines, every try
// counted.
func TestFloodIsCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		a := &alarm{record: l.record, now: time.Now}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.run(ctx); close(done) }()
		const seconds, perSecond = 600, 1000
		for range seconds {
			for range perSecond {
				a.raise(palyra.AlertRaised{Reason: palyra.ReasonBadSignature, Principal: "agent:x"})
			}
			time.Sleep(time.Second)
		}
		cancel()
		<-done
		n, total := l.counts()
		if total != seconds*perSecond {
			t.Errorf("%d tries on record, want %d", total, seconds*perSecond)
		}
		if n > 30 {
			t.Errorf("%d lines for a flood of %d s", n, seconds)
		}
	})
}

func TestAlarmTellsApart(t *testing.T) {
	var l lines
	a := &alarm{record: l.record, now: time.Now}
	a.raise(palyra.AlertRaised{Reason: palyra.ReasonBadSignature, Principal: "agent:x"})
	a.raise(palyra.AlertRaised{Reason: palyra.ReasonUnknownKey, Principal: "agent:x"})
	a.raise(palyra.AlertRaised{Reason: palyra.ReasonBadSignature, Principal: "agent:y"})
	a.flood("agent", palyra.ReasonRateLimited)
	a.raise(palyra.AlertRaised{Reason: palyra.ReasonBadSignature, Principal: "agent:x"})
	if n, _ := l.counts(); n != 4 {
		t.Errorf("%d lines", n)
	}
}

func TestAlarmAfterQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		a := &alarm{record: l.record, now: time.Now}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.run(ctx); close(done) }()
		for range 3 {
			a.raise(palyra.AlertRaised{Reason: palyra.ReasonForeignUID})
			time.Sleep(3 * time.Second)
		}
		cancel()
		<-done
		if n, total := l.counts(); n != 3 || total != 3 {
			t.Errorf("%d lines, %d tries", n, total)
		}
	})
}

func TestAlarmIsBounded(t *testing.T) {
	var l lines
	a := &alarm{record: l.record, now: time.Now}
	for i := range 5 * maxRows {
		a.raise(palyra.AlertRaised{Reason: palyra.ReasonBadCredential, Principal: palyra.Principal(fmt.Sprintf("agent:%d", i))})
	}
	if len(a.rows) > maxRows+1 {
		t.Errorf("%d rows", len(a.rows))
	}
	a.flush(true)
	if _, total := l.counts(); total != 5*maxRows {
		t.Errorf("%d tries on record", total)
	}
}

func TestCallerOutsideARequest(t *testing.T) {
	if c := CallerOf(t.Context()); c.Principal != "" || c.Signed {
		t.Errorf("%+v", c)
	}
	ctx := context.WithValue(t.Context(), requestKey{}, &request{caller: Caller{Principal: "user:x"}})
	if c := CallerOf(ctx); c.Principal != "" {
		t.Errorf("a request that was not admitted has a caller: %+v", c)
	}
	if c := CallerOf(WithCaller(t.Context(), Caller{Principal: "user:x"})); c.Principal != "user:x" {
		t.Errorf("%+v", c)
	}
}
