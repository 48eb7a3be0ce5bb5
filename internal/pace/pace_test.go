package pace

import (
	"testing"
	"time"
)

func TestWithin(t *testing.T) {
	const limit = 30 * time.Second
	for got, want := range map[int64]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, full / 2: 20 * time.Second, full: limit, 16 << 30: limit,
	} {
		if is := Within(limit, got); is != want {
			t.Errorf("%d bytes: %s", got, is)
		}
	}
	if one := Within(limit, 1); one > 10*time.Second+time.Millisecond {
		t.Errorf("one byte: %s", one)
	}
}
