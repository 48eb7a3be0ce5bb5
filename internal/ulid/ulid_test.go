package ulid

import (
	"strings"
	"testing"
	"time"
)

func TestNewRisesAndIsUnique(t *testing.T) {
	now, last := time.Now(), ""
	for range 10000 {
		id := New(now)
		if id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		if !Valid(id) {
			t.Fatalf("%s is not valid", id)
		}
		last = id
	}
}

func TestValidRefuses(t *testing.T) {
	good := New(time.Now())
	for _, s := range []string{"", "x", strings.ToLower(good), good + "0", good[:25] + "U", "8" + good[1:], good[:25] + "\x00"} {
		if Valid(s) {
			t.Errorf("%q accepted", s)
		}
	}
}
