// Package limit says who has asked too often.
//
// Words: a key is a credential, a run or an address; each kind of request has a bucket per key that fills at a
// steady rate and holds a second's worth, or two. A try is an attempt to prove something that could be guessed (a
// login code, a pairing code): tries have a bucket per address and one for everybody together, and failures make
// the wait longer and in the end lock the address out.
//
// Promises: memory is bounded whatever keys come, and a flood of new keys cannot push out an address that is
// locked; a refusal says when to come again; a key that waits that long is let in.
//
// It does not know what a request is, nor write anything down: with the daemon it begins anew.
//
// Its words are those of docs/words.md.
package limit

import (
	"container/list"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Kind is what is asked for.
type Kind = string

// The kinds. Every request is a Request; some are more than that.
const (
	Request Kind = "requests"
	Propose Kind = "propose"
	Decide  Kind = "decide"
	Login   Kind = "login"
)

// Config sets the rates. 0 is no limit.
type Config struct {
	Requests int64 // per second, of one credential
	Propose  int64 // per second, of one credential or run
	Decide   int64 // per second, of one credential
	Logins   int64 // per minute, from one address
	Most     int   // keys that are remembered; the default is 10,000
	Now      func() time.Time
}

const defaultMost = 10_000

// Limiter keeps the buckets. It is safe for concurrent use.
type Limiter struct {
	rates map[Kind]rate.Limit
	most  int
	now   func() time.Time

	mu      sync.Mutex // guards what follows; held for moments only
	buckets map[bucketKey]*list.Element
	order   *list.List // of *bucket, the latest used first
	counts  map[Kind]int64
	tries   tries
}

type bucketKey struct {
	kind Kind
	key  string
}

type bucket struct {
	bucketKey
	*rate.Limiter
}

// New returns a Limiter.
func New(c Config) *Limiter {
	if c.Most <= 0 {
		c.Most = defaultMost
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	l := &Limiter{
		rates: map[Kind]rate.Limit{}, most: c.Most, now: c.Now, buckets: map[bucketKey]*list.Element{}, order: list.New(),
		counts: map[Kind]int64{},
	}
	for kind, n := range map[Kind]int64{Request: c.Requests, Propose: c.Propose, Decide: c.Decide} {
		if n > 0 {
			l.rates[kind] = rate.Limit(n)
		}
	}
	l.tries = newTries(c.Logins, c.Most)
	return l
}

// Take takes one request out of the key's bucket. When that is empty it reports
// false, and after how long one will be in it.
func (l *Limiter) Take(kind Kind, key string) (after time.Duration, ok bool) {
	limit, limited := l.rates[kind]
	if !limited {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	r := l.bucket(bucketKey{kind, key}, limit).ReserveN(now, 1)
	if after = r.DelayFrom(now); after <= 0 {
		return 0, true
	}
	r.CancelAt(now)
	l.counts[kind]++
	return after, false
}

// Look is Take without taking: it says what Take would. A key that never took
// anything is not remembered for having been looked at.
func (l *Limiter) Look(kind Kind, key string) (after time.Duration, ok bool) {
	limit, limited := l.rates[kind]
	if !limited {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.buckets[bucketKey{kind, key}]
	if e == nil {
		return 0, true
	}
	left := e.Value.(*bucket).TokensAt(l.now())
	if left >= 1 {
		return 0, true
	}
	l.counts[kind]++
	return time.Duration(math.Ceil((1 - left) / float64(limit) * float64(time.Second))), false
}

// bucket finds the key's bucket, or makes one; then the one that rested longest
// goes, whose owner has at most what a new one has.
func (l *Limiter) bucket(k bucketKey, limit rate.Limit) *rate.Limiter {
	if e := l.buckets[k]; e != nil {
		l.order.MoveToFront(e)
		return e.Value.(*bucket).Limiter
	}
	if l.order.Len() >= l.most {
		oldest := l.order.Back()
		delete(l.buckets, oldest.Value.(*bucket).bucketKey)
		l.order.Remove(oldest)
	}
	b := &bucket{k, rate.NewLimiter(limit, max(1, int(2*limit)))}
	l.buckets[k] = l.order.PushFront(b)
	return b.Limiter
}

// Counters returns how many requests of each kind were turned away.
func (l *Limiter) Counters() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int64{}
	for kind, n := range l.counts {
		out[kind] = n
	}
	return out
}
