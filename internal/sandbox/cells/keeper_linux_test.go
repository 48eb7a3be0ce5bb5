package cells

import (
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
)

// late is a process that is there when nobody wants it any more.
type late struct{ killed, reaped atomic.Bool }

func (*late) Pid() int      { return 1 }
func (l *late) Kill()       { l.killed.Store(true) }
func (l *late) Wait() error { l.reaped.Store(true); return nil }

// A start that the kernel holds up keeps nobody waiting, and what comes of it later is
// ended.
func TestStartThatTakesTooLong(t *testing.T) {
	f, err := NewFleet(Config{Tier: "test", StateID: "late"})
	if err != nil {
		t.Fatal(err)
	}
	f.Log, f.startWithin = slog.New(slog.DiscardHandler), 10*time.Millisecond
	held, body := make(chan struct{}), &late{}
	_, err = f.Open(func(*Keeper, *os.File, *os.File) (Body, error) {
		<-held
		return body, nil
	})
	if e := palyra.AsError(err); e == nil || e.Reason != palyra.ReasonSpawnFailed {
		t.Errorf("%v", err)
	}
	close(held)
	f.work.Wait()
	if !body.killed.Load() || !body.reaped.Load() || len(f.live) != 0 {
		t.Errorf("killed %v, reaped %v, %d live", body.killed.Load(), body.reaped.Load(), len(f.live))
	}
}
