package ca

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"palyra"
)

const (
	rotationDomain = "palyra/ca-rotation/v1\x00"
	// grace is how much longer than its longest device certificate a retired
	// authority is served, for clocks that do not agree.
	grace = time.Hour
	// settleTime is how long a keeper that failed is asked what it holds.
	settleTime = 10 * time.Second
)

// Rotation is one authority following another.
type Rotation struct {
	Old palyra.Key `json:"old"`
	New palyra.Key `json:"new"`
	Sig string     `json:"sig"` // base64: the old key's signature over the new public key
}

// CheckRotation reports whether the old key signed the new one.
func CheckRotation(r Rotation) error {
	bad := palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature, "the new device authority is not signed by the old one")
	old, err := publicOf(r.Old)
	if err != nil {
		return bad
	}
	next, err := publicOf(r.New)
	if err != nil {
		return bad
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(r.Sig)
	if err != nil || !ed25519.Verify(old, rotationMessage(next), sig) {
		return bad
	}
	return nil
}

func publicOf(k palyra.Key) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(k.PublicKey)
	if err != nil || k.Use != Use || len(b) != ed25519.PublicKeySize || idOf(b) != k.ID {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "that is not a device authority's key")
	}
	return b, nil
}

func rotationMessage(next ed25519.PublicKey) []byte { return append([]byte(rotationDomain), next...) }

// Rotations returns how the authorities that are kept came to their places,
// oldest first. A caller that keeps a record of rotations compares it with this
// when it starts: a crash right after a rotation was kept leaves it unrecorded.
func (a *Authority) Rotations() []Rotation {
	var out []Rotation
	for _, i := range slices.Backward(a.state().issuers) {
		if i.from != nil {
			out = append(out, *i.from)
		}
	}
	return out
}

// Rotate puts a new authority in the place of the current one and returns both keys and the old one's signature
// over the new. Every crash can be told apart by what the keeper holds afterwards:
//
//	the new authority's certificate is published   crash: the keeper knows nothing of it; Open takes it away
//	the keeper's value is replaced                 crash: the new authority is in force; Rotations tells of it
//
// Devices of the old authority go on with their certificates until those expire,
// and get one of the new authority when they renew.
func (a *Authority) Rotate(ctx context.Context) (old, next palyra.Key, sig string, err error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return old, next, "", ctx.Err()
	}
	defer func() { <-a.turn }()
	a.signing.Lock()
	defer a.signing.Unlock()
	if err := a.reload(ctx); err != nil { // an earlier rotation may have failed half-way
		return old, next, "", err
	}
	st, err := a.successor(a.cfg.Now().UTC())
	if err != nil {
		return old, next, "", err
	}
	if err := a.publish(st); err != nil {
		return old, next, "", err
	}
	a.point("ca.staged/kept")
	if err := a.store(ctx, st); err != nil {
		return old, next, "", a.settle(ctx, err)
	}
	a.point("ca.rotated/kept")
	a.adopt(st)
	r := st.issuers[0].from
	return r.Old, r.New, r.Sig, nil
}

// successor makes the state after a rotation at the given time.
func (a *Authority) successor(now time.Time) (*state, error) {
	st := a.state()
	serving := st.serving(now)
	if len(serving) >= mostIssuers {
		return nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonTooManyPending, "%d device authorities are still in service", len(serving)).
			WithRemedy("wait until %s, when the oldest ends", serving[len(serving)-1].until.Format(time.DateOnly))
	}
	next, err := newIssuer(now)
	if err != nil {
		return nil, err
	}
	was := st.issuers[0]
	life := time.Duration(max(st.longest, a.cfg.Days))*24*time.Hour + grace
	retired := &issuer{id: was.id, cert: was.cert, from: was.from, retired: now, until: now.Add(life)}
	out := &state{longest: a.cfg.Days, issuers: []*issuer{next}}
	if was.cert.NotAfter.After(now) { // else nobody trusts it any more, nor those before it
		if retired.last, err = was.server(now, life); err != nil {
			return nil, err
		}
		out.issuers = append(append(out.issuers, retired), serving[1:]...)
	}
	raw, err := was.key.Sign(nil, rotationMessage(next.key.pub), nil)
	if err != nil {
		return nil, err
	}
	next.from = &Rotation{Old: retired.public(), New: next.public(), Sig: base64.StdEncoding.EncodeToString(raw)}
	return out, nil
}

// adopt makes a state ours; the key of the one before is gone with that. Its caller keeps everybody from signing.
func (a *Authority) adopt(st *state) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.st.issuers) > 0 {
		a.st.issuers[0].key.seed.Destroy()
	}
	a.st, a.unsure = st, false
}

// reload makes the keeper's state ours.
func (a *Authority) reload(ctx context.Context) error {
	st, err := a.load(ctx)
	if err != nil {
		return err
	}
	a.adopt(st)
	return nil
}

// settle finds out what a store that failed left in force. No device gets a certificate until that is known.
func (a *Authority) settle(ctx context.Context, cause error) error {
	a.mu.Lock()
	a.unsure = true
	a.mu.Unlock()
	before := a.ID()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := a.reload(ctx); err != nil {
		return fmt.Errorf("ca: rotate: %w", cause)
	}
	_ = a.publish(a.state()) // copies only; Open does it again
	if now := a.ID(); now != before {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal,
			"the device authority is rotated to %s, but its keeper failed while saying so", now).
			WithRemedy("check where the key is kept; the rotation holds").WithCause(cause)
	}
	return fmt.Errorf("ca: rotate: %w", cause)
}
