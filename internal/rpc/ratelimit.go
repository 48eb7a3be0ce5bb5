package rpc

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"palyra"
)

// kinds are the buckets that a request is taken out of.
func (r *request) kinds() []string {
	switch r.access.Permission {
	case palyra.PermitRunsStart:
		return []string{limitRequests, limitPropose}
	case decide:
		return []string{limitRequests, limitDecide}
	}
	return []string{limitRequests}
}

// bucket is whose buckets they are. Who only looks around on the operator socket, and the agent of a device, have
// their own: neither can keep a person from deciding by asking too often.
func (r *request) bucket() string {
	switch {
	case r.caller.Credential == ByOperatorSocket && !r.caller.Signed:
		return "uid:" + strconv.FormatInt(r.peer.uid, 10)
	case r.caller.Credential == ByDevice && r.caller.IsAgent():
		return r.caller.CredentialID + "/agent"
	}
	return r.caller.CredentialID
}

// claims reports whether the request only claims whose key signed it: the caller is identified when the
// signature is checked, which takes the message.
func (r *request) claims() bool { return r.signed && r.peer.device == "" && !r.caller.IsAgent() }

// rateLimit takes the request out of its caller's buckets before the message is read. The buckets of a key
// that is only claimed are looked at and not emptied: only its own signatures empty them (signer), so that
// nobody is locked out by another's claims.
func (a *auth) rateLimit(r *request) error {
	switch {
	case a.Limits == nil:
		return nil
	case r.claims():
		return limited(r, a.Limits.Look, keyBucket(r.intent.KeyID))
	}
	return limited(r, a.Limits.Take, r.bucket())
}

// checkBuckets looks at the buckets of a credential that is only being shown, so that a flood costs no
// look-up each. It only ever refuses, and only callers who could empty those buckets: nobody else can show
// the token, and the device is proven.
func (a *auth) checkBuckets(r *request, h http.Header) error {
	if a.Limits == nil {
		return nil
	}
	var key string
	if token, given, err := bearer(h); err == nil && given {
		key = a.shown.lookup(token)
	} else if r.peer.device != "" {
		if key = "device:" + r.peer.device; len(h.Values(DoorHeader)) > 0 {
			key += "/agent"
		}
	}
	if key == "" {
		return nil
	}
	return limited(r, a.Limits.Look, key)
}

// tokenCache remembers whose the tokens were that came lately.
type tokenCache struct {
	mu sync.Mutex // guards by
	by map[palyra.Digest]string
}

const maxShown = 4096

func digestOf(token palyra.Secret) (d palyra.Digest) {
	_ = token.Use(func(b []byte) error {
		d = palyra.SumBytes(b)
		return nil
	})
	return d
}

func (s *tokenCache) lookup(token palyra.Secret) string {
	d := digestOf(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[d]
}

// rememberValid remembers a token that was looked up and held.
func (s *tokenCache) rememberValid(token palyra.Secret, credential string) {
	d := digestOf(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxShown {
		s.by = map[palyra.Digest]string{}
	}
	s.by[d] = credential
}

func keyBucket(keyID string) string { return "key:" + keyID }

// proven takes a request out of the buckets of the key that did sign it.
func (a *auth) proven(r *request, op palyra.Operator) error {
	if a.Limits == nil || !r.claims() {
		return nil
	}
	return limited(r, a.Limits.Take, keyBucket(op.KeyID))
}

func limited(r *request, take func(kind, key string) (time.Duration, bool), key string) error {
	for _, kind := range r.kinds() {
		if after, ok := take(kind, key); !ok {
			after = waitMillis(after)
			return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too many requests (%s) with this credential", kind).
				WithRemedy("wait %s and try again; an operator can raise it in [limits]", after).WithAfter(after)
		}
	}
	return nil
}

// waitMillis is a wait as answers have it, in milliseconds: never none, never less.
func waitMillis(d time.Duration) time.Duration {
	return max(1, (d+time.Millisecond-1)/time.Millisecond) * time.Millisecond
}

// unauthenticated counts a request that showed no good credential against where it came
// from. Only such requests are refused by it: others from there are not.
func (a *auth) unauthenticated(r *request, err error) error {
	if a.Limits == nil || palyra.CodeOf(err) != palyra.Denied {
		return err
	}
	after, ok := a.Limits.Take(limitRequests, "stranger:"+r.peer.place())
	if ok {
		return err
	}
	after = waitMillis(after)
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too many requests without a good credential").
		WithRemedy("wait %s, and come with a credential that holds", after).WithAfter(after)
}

// place is where a peer is.
func (p peer) place() string {
	switch {
	case p.device != "":
		return "device:" + p.device
	case p.address != "":
		return "address:" + p.address
	}
	return "uid:" + strconv.FormatInt(p.uid, 10)
}

// hold holds the request under the credentials that it came with, as far as they are known.
func (a *auth) hold(ctx context.Context, r *request) error {
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return errEnded // nothing would end it
	}
	for _, id := range []string{r.caller.CredentialID, r.behind} {
		if err := v.hold(id, r.since); err != nil {
			return err
		}
	}
	return nil
}

// lapse ends a stream when its credential does so by itself: a session and a token
// at their time. That a token was taken away elsewhere only the registry knows.
func (a *auth) lapse(ctx context.Context, r *request, cancel context.CancelCauseFunc) {
	if !r.until.IsZero() {
		t := time.AfterFunc(r.until.Sub(a.Now()), func() { cancel(errEnded) })
		context.AfterFunc(ctx, func() { t.Stop() })
	}
	if r.caller.Credential == ByToken {
		go a.recheck(ctx, r, cancel)
	}
}

// recheck asks for a token again and again, until ctx ends.
func (a *auth) recheck(ctx context.Context, r *request, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(a.limits.recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := a.Access.Bearer(ctx, r.token); palyra.CodeOf(err) == palyra.Denied {
			cancel(errEnded)
			return
		}
	}
}
