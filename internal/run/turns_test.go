package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"palyra"
)

// A kept turn is there after a restart, as it was kept first, and was paid for
// once; what it said before it was cut off is told apart.
func TestTurnsAreKept(t *testing.T) {
	stopped := make(chan struct{})
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		if body, err := l.Kept(ctx, 1); err != nil || body != nil {
			t.Errorf("%q, %v", body, err)
		}
		for _, b := range []string{"first", "second"} {
			if err := l.Keep(ctx, 1, []byte(b), palyra.Tokens{InputTokens: 5, OutputTokens: 2}); err != nil {
				return err
			}
		}
		err := errors.Join(l.Anew(ctx, 2), l.Text(ctx, 2, "half", false), l.Anew(ctx, 2), l.Text(ctx, 2, "another half", false))
		if err != nil {
			return err
		}
		close(stopped)
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	r := w.start(w.request("x"))
	<-stopped
	w.driver = driver(func(ctx context.Context, l *Live) error {
		if body, err := l.Kept(ctx, 1); err != nil || string(body) != "first" {
			t.Errorf("%q, %v", body, err)
		}
		return errors.Join(l.Anew(ctx, 2), l.Text(ctx, 2, "a whole answer", false), l.Text(ctx, 2, "", true), l.Anew(ctx, 2))
	})
	w.restart()
	var said strings.Builder
	for _, e := range w.attach(r.ID, 0) {
		if x := e.ModelText; x != nil {
			said.WriteString(map[bool]string{true: "|"}[x.Again] + x.Text)
		}
	}
	if got := said.String(); got != "half|another half|a whole answer" {
		t.Errorf("%q", got)
	}
	if end := w.ended(r.ID); end.Tokens != (palyra.Tokens{InputTokens: 5, OutputTokens: 2}) || end.State != palyra.RunDone {
		t.Errorf("%+v", end)
	}
}

// A run sees the turns of those of its session that had ended before it, oldest
// first, within its bound.
func TestEarlierTurns(t *testing.T) {
	var seen []string
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		turns, err := l.Earlier(ctx, 25)
		if err != nil {
			return err
		}
		list := ""
		for _, x := range turns {
			list += string(x.Body) + " "
		}
		seen = append(seen, list)
		for _, n := range []int64{1, 2} {
			if err := l.Keep(ctx, n, []byte(string(rune('a'+len(seen)))+"234567"+string(rune('0'+n))), palyra.Tokens{}); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 3 {
		w.ended(w.start(w.request("x")).ID)
	}
	if want := []string{"", "b2345671 b2345672 ", "b2345672 c2345671 c2345672 "}; strings.Join(seen, "|") != strings.Join(want, "|") {
		t.Errorf("%q", seen)
	}
	q := w.request("x")
	q.Session = "another"
	w.ended(w.start(q).ID)
	if last := seen[len(seen)-1]; last != "" {
		t.Errorf("another session sees %q", last)
	}
}

func TestTurnsAreBounded(t *testing.T) {
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		if palyra.CodeOf(l.Keep(ctx, 0, nil, palyra.Tokens{})) != palyra.Invalid {
			t.Error("turn 0 was kept")
		}
		return l.Keep(ctx, 1, make([]byte, maxTurn+1), palyra.Tokens{})
	}))
	if r := w.ended(w.start(w.request("x")).ID); r.ReasonCode != palyra.ReasonInputTooLarge {
		t.Errorf("%+v", r)
	}
}
