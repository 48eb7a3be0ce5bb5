// Package ulid makes and checks the ids of everything Palyra keeps: 26 characters that sort by time. Entropy is
// from crypto/rand; ids made in one process within one millisecond still rise. They are names, not secrets.
package ulid

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

var (
	mu      sync.Mutex
	entropy = ulid.Monotonic(rand.Reader, 0)
)

// New returns a fresh id for the given time.
func New(now time.Time) string {
	mu.Lock()
	defer mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(now), entropy)
	if err != nil { // monotonic overflow within one millisecond: start over with fresh randomness
		id = ulid.MustNew(ulid.Timestamp(now), rand.Reader)
	}
	return id.String()
}

// Valid reports whether s is a ULID in its one spelling (upper case, in range).
func Valid(s string) bool {
	id, err := ulid.ParseStrict(s)
	return err == nil && id.String() == s
}
