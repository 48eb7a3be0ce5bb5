package limit

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"
)

// Of failures in a row from one address: how many are free, how the wait grows
// from there, and when the address is locked out.
const (
	freeFailures = 3
	firstWait    = 2 * time.Second
	longestWait  = 5 * time.Minute
	lockAfter    = 20
	lockFor      = 15 * time.Minute
	forgetAfter  = time.Hour // of quiet
	everybody    = 20        // times what one address may, for all together
)

// tries keeps who tried, how often, and to what end.
type tries struct {
	perMinute int64
	most      int
	all       *rate.Limiter
	by        map[string]*record
	swept     time.Time
}

type record struct {
	bucket   *rate.Limiter
	failures int
	until    time.Time // nothing before
	last     time.Time
}

func newTries(perMinute int64, most int) tries {
	if perMinute <= 0 {
		perMinute = 5
	}
	one := rate.Limit(float64(perMinute) / time.Minute.Seconds())
	return tries{perMinute: perMinute, most: most, all: rate.NewLimiter(one*everybody, int(perMinute*everybody)), by: map[string]*record{}}
}

// Try is about to check what an address claims to know. When it may not, Try says
// after how long it may. Otherwise done must be called with how the check ended;
// until then the try counts as a failure, so that hanging up saves nobody one.
func (l *Limiter) Try(address string) (done func(ok bool), after time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	address = place(address)
	r := l.tries.record(address, now)
	if r == nil {
		l.counts[Login]++
		return nil, lockFor, false
	}
	if after = l.tries.take(r, now); after > 0 {
		l.counts[Login]++
		return nil, after, false
	}
	l.tries.by[address] = r // not before: who is turned away for the others' sake takes no room
	r.fail(now)
	return func(ok bool) {
		if !ok {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		r.failures, r.until = 0, time.Time{}
	}, 0, true
}

// take takes a try, or says how long to wait for one.
func (t *tries) take(r *record, now time.Time) time.Duration {
	if wait := r.until.Sub(now); wait > 0 {
		return wait
	}
	own := r.bucket.ReserveN(now, 1)
	if wait := own.DelayFrom(now); wait > 0 {
		own.CancelAt(now)
		return wait
	}
	shared := t.all.ReserveN(now, 1)
	if wait := shared.DelayFrom(now); wait > 0 {
		shared.CancelAt(now)
		own.CancelAt(now)
		return wait
	}
	return 0
}

// fail counts a failure and sets how long the next try has to wait.
func (r *record) fail(now time.Time) {
	r.last = now
	r.failures++
	switch over := r.failures - freeFailures; {
	case r.failures >= lockAfter:
		r.until = now.Add(lockFor)
	case over > 0:
		r.until = now.Add(min(longestWait, firstWait<<min(over-1, 16)))
	}
}

// record finds an address's record or makes one; nil when there are too many that may not be forgotten yet.
func (t *tries) record(address string, now time.Time) *record {
	if r := t.by[address]; r != nil {
		if now.Sub(r.last) > forgetAfter {
			r.failures, r.until = 0, time.Time{}
		}
		return r
	}
	if len(t.by) >= t.most && !t.sweep(now) {
		return nil
	}
	return &record{bucket: rate.NewLimiter(rate.Limit(float64(t.perMinute)/time.Minute.Seconds()), int(t.perMinute)), last: now}
}

// place is whom an address counts as: of IPv6 the network that one host has to
// itself, because it can take any address in it.
func place(address string) string {
	const network = 64
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		return netip.PrefixFrom(ip, network).Masked().String()
	}
	return ip.String()
}

// sweep forgets who has been quiet for long, at most once a second, and reports whether there is room.
func (t *tries) sweep(now time.Time) bool {
	if now.Sub(t.swept) < time.Second && !now.Before(t.swept) {
		return false
	}
	t.swept = now
	for address, r := range t.by {
		if now.Sub(r.last) > forgetAfter || r.failures == 0 && now.Sub(r.last) > time.Minute {
			delete(t.by, address)
		}
	}
	return len(t.by) < t.most
}
