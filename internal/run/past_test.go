package run

import (
	"testing"
	"time"
)

func TestBound(t *testing.T) {
	for at, want := range map[time.Time]int64{
		{}: 7, time.Unix(5, 0): 5e9, time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC): 0, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC): 1<<63 - 1,
	} {
		if got := bound(at, 7); got != want {
			t.Errorf("%v: %d", at, got)
		}
	}
}
