package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"palyra"
)

type closer chan struct{}

func (c closer) Close() error {
	close(c)
	return nil
}

// What was looked up before an end and is entered after it is refused: whoever
// was let in by a credential that is over does not stay.
func TestLiveEndsWhatComesLate(t *testing.T) {
	l := &credentials{most: 2}
	since := l.begin()
	ctx, cancel := context.WithCancelCause(t.Context())
	conn := make(closer)
	leave, err := l.enter("a", since, &held{cancel: cancel, conn: conn})
	if err != nil {
		t.Fatal(err)
	}
	l.end("a")
	if !errors.Is(context.Cause(ctx), errEnded) {
		t.Errorf("%v", context.Cause(ctx))
	}
	select {
	case <-conn: // once its requests had their last word
	case <-time.After(30 * lastWord):
		t.Error("the connection stays")
	}
	leave()
	if _, err := l.enter("a", since, &held{}); !errors.Is(err, errEnded) || !l.ended("a", since) {
		t.Errorf("late: %v", err)
	}
	if _, err := l.enter("b", since, &held{}); err != nil {
		t.Errorf("another: %v", err)
	}
	for i := range 3 { // the credential may be good again: a role was changed
		_, err := l.enter("a", l.begin(), &held{})
		if (i < 2) != (err == nil) || i == 2 && palyra.AsError(err).After <= 0 {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// Ends are forgotten in the end, and then nobody who began before is let in.
func TestLiveForgetsClosed(t *testing.T) {
	l := &credentials{}
	before := l.begin()
	for i := range 3 * maxEnds {
		l.end(fmt.Sprint("gone ", i))
	}
	if len(l.last) > maxEnds {
		t.Errorf("%d are remembered", len(l.last))
	}
	if _, err := l.enter("gone 0", before, &held{}); !errors.Is(err, errEnded) {
		t.Errorf("%v", err)
	}
	if _, err := l.enter("gone 0", l.begin(), &held{}); err != nil {
		t.Errorf("%v", err)
	}
}

func TestPlace(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "192.0.2.1": "192.0.2.1", "[2001:db8::1]:443": "2001:db8::/64", "[2001:db8::ffff:1]:443": "2001:db8::/64",
		"[2001:db8:0:1::1]:1": "2001:db8:0:1::/64", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[fe80::1%eth0]:80": "fe80::/64", "@": "@", "": "",
	} {
		if got := place(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
