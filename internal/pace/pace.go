// Package pace says how long the body of a request may take to arrive, so that a client that sends next to nothing
// holds a door for a short time only and one behind a slow line still gets through.
package pace

import "time"

// full is how much must have arrived before a body has all of its time.
const full = 1 << 20

// Within returns how long a body of which got bytes are there may have taken so
// far: a third of the limit at the beginning, and all of it from 1 MiB on.
func Within(limit time.Duration, got int64) time.Duration {
	first := limit / 3
	if got >= full {
		return limit
	}
	return first + time.Duration(float64(limit-first)*float64(max(got, 0))/full)
}
