package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/mcp/upstream"
)

// TestRemoveIsNotHeldUp: one that never tells its tools again can be removed, however
// many wait for it.
func TestRemoveIsNotHeldUp(t *testing.T) {
	w := newWorld(t, func(c *upstream.Config) { c.Start = time.Hour })
	w.add("one", true)
	c, g := w.granted("mcp.one.add")
	asked := make(chan struct{}, 8)
	w.fake.answer = func(_ *conn, m message) bool {
		if m.Method == "tools/list" {
			asked <- struct{}{}
		}
		return m.Method == "tools/list"
	}
	shown := make(chan error, 1)
	go func() {
		_, err := w.Get(t.Context(), "one", true)
		shown <- err
	}()
	<-asked
	ran := make(chan palyra.Result, 1)
	go func() { ran <- w.launch(t.Context(), g, c) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Remove(ctx, "one", "user:a", palyra.Signature{}); err != nil {
		t.Fatal(err)
	}
	<-shown
	if res := <-ran; res.Refusal == nil {
		t.Errorf("a call of one that is gone: %+v", res)
	}
	if _, ok := w.Tool("mcp.one.add"); ok || w.fake.live.Load() != 0 {
		t.Error("something is left")
	}
}

// TestToolsAreToldInTime: a server that does not tell its tools again is ended, and
// nobody waits for longer than for a start.
func TestToolsAreToldInTime(t *testing.T) {
	w := newWorld(t, func(c *upstream.Config) { c.Start = 300 * time.Millisecond })
	var mute atomic.Bool
	w.fake.answer = func(_ *conn, m message) bool { return mute.Load() && m.Method == "tools/list" }
	w.add("one", true)
	mute.Store(true)
	u, err := w.Get(t.Context(), "one", true)
	if err != nil || u.State == palyra.UpstreamReady && u.Fault != "" {
		t.Fatalf("%+v %v", u, err)
	}
	mute.Store(false)
	if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil || res.Refusal != nil || w.fake.starts.Load() != 2 {
		t.Errorf("the next one: %+v", res)
	}
}

// TestNothingIsLeftForTheNext: what a server left behind is gone before another may
// have its name.
func TestNothingIsLeftForTheNext(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	if err := w.Remove(t.Context(), "one", "user:a", palyra.Signature{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.fake.forgot, []string{"one 0", "one 0"}) { // before it was started, and after its end
		t.Errorf("%q", w.fake.forgot)
	}
	w.fake.keeps = errors.New("disk")
	if u, err := w.Add(t.Context(), stdio("one", true)); err == nil || w.fake.starts.Load() != 1 {
		t.Errorf("it was started on what another left: %+v %v", u, err)
	}
}

// TestFickleServers: one whose tools never stay the same does not fill the journal,
// and is not called.
func TestFickleServers(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	c, g := w.granted("mcp.one.add")
	turn := 0
	w.fake.answer = func(c *conn, m message) bool {
		if m.Method != "tools/list" {
			return false
		}
		turn++
		_ = c.result(m.ID, map[string]any{"tools": []any{tool("add", fmt.Sprintf("Adds %d.", turn))}})
		return true
	}
	for range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // later ones would wait
		_, _ = w.Get(ctx, "one", true)
		cancel()
	}
	if n := w.journal.count("upstream.quarantined"); n > 30 {
		t.Errorf("%d lines", n)
	}
	if res := w.launch(t.Context(), g, c); res.Refusal == nil {
		t.Errorf("%+v", res)
	}
}

// TestAnswersToNothing do not count as answers.
func TestAnswersToNothing(t *testing.T) {
	w := newWorld(t, func(c *upstream.Config) { c.Start = time.Minute })
	w.fake.answer = func(c *conn, m message) bool {
		if m.Method != "tools/list" {
			return false
		}
		go func() {
			for i := 0; c.say(`{"jsonrpc":"2.0","id":%d,"result":{}}`, 1_000_000+i) == nil; i++ {
			}
		}()
		return true
	}
	_, err := w.Add(t.Context(), stdio("one", true))
	if err == nil || !strings.Contains(palyra.AsError(err).Text, "without end") {
		t.Fatal(err)
	}
}
