package access

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"time"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/store"
)

// keep is how long used signatures are remembered beyond the window in which
// they count; what is forgotten is below the floor. pruneEvery spaces the work.
const (
	keep       = 10 * palyra.IntentWindow
	pruneEvery = time.Minute
)

// CheckIntent returns the operator behind a signature and the signature as evidence, with the public key filled in.
// A device's key is an operator whose Device is set: it counts only on that device's own connection, which the door
// sees to, as it does to the person's own role (Cap). It checks, in this order: the audience and the body, the key,
// the signature itself, its time, and that it was never used. When it returns nil the use is durable: the same
// signature is refused from then on, whatever becomes of the request.
func (r *Registry) CheckIntent(ctx context.Context, sig palyra.Signature) (palyra.Operator, palyra.Signature, error) {
	if err := r.checkBound(sig); err != nil {
		return palyra.Operator{}, palyra.Signature{}, err
	}
	var op palyra.Operator
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		by, err := signer(tx, sig)
		op = by.Operator
		return err
	})
	if err != nil {
		return palyra.Operator{}, palyra.Signature{}, err
	}
	said, err := r.verify(op, sig)
	if err != nil {
		return palyra.Operator{}, palyra.Signature{}, err
	}
	if err := r.use(ctx, op, sig, said); err != nil {
		return palyra.Operator{}, palyra.Signature{}, err
	}
	sig.PublicKey = op.PublicKey
	return op, sig, nil
}

// checkBound checks the audience and the body of a signature, before its key.
func (r *Registry) checkBound(sig palyra.Signature) error {
	body, err := palyra.IntentBody(sig.Fields)
	if err != nil || body != sig.Intent.Body || sig.Intent.Audience != r.StateID || sig.Intent.Nonce == "" || sig.Intent.Method == "" {
		return badSignature()
	}
	return nil
}

// verify checks a signature with its key: that of a passkey by its assertion, any other over the intent itself.
func (r *Registry) verify(op palyra.Operator, sig palyra.Signature) (passkey.Said, error) {
	msg, err := sig.Intent.Bytes()
	if err != nil || (op.Passkey == nil) != (sig.Assertion == nil) {
		return passkey.Said{}, badSignature()
	}
	if op.Passkey != nil {
		return r.verifyAssertion(op, msg, sig)
	}
	pub, err := base64.StdEncoding.Strict().DecodeString(op.PublicKey)
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return passkey.Said{}, badSignature()
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(sig.Sig)
	if err != nil || !ed25519.Verify(pub, msg, raw) {
		return passkey.Said{}, badSignature()
	}
	return passkey.Said{}, nil
}

// use takes the signature's one use. The clock is read inside the transaction:
// a request that waited for its turn is judged by the time it gets it.
func (r *Registry) use(ctx context.Context, op palyra.Operator, sig palyra.Signature, said passkey.Said) error {
	at, err := time.Parse(time.RFC3339Nano, sig.Intent.Time)
	if err != nil {
		return badSignature()
	}
	return r.DB.Write(ctx, "intent.used", func(tx *store.Tx) error {
		now := r.Now()
		if at.Before(now.Add(-palyra.IntentWindow)) || at.After(now.Add(palyra.IntentWindow)) {
			return stale()
		}
		if _, err := signer(tx, sig); err != nil { // removed meanwhile
			return err
		}
		var floor int64
		if err := tx.Get(`SELECT time FROM access_floor WHERE id = 1`, nil, &floor); err != nil {
			return err
		}
		if at.UnixNano() < floor {
			return stale()
		}
		n, err := tx.Exec(`INSERT INTO access_intents (key_id, nonce, time) VALUES (?, ?, ?) ON CONFLICT (key_id, nonce) DO NOTHING`,
			sig.Intent.KeyID, sig.Intent.Nonce, at.UnixNano())
		if err != nil {
			return err
		}
		if n == 0 {
			return palyra.Errorf(palyra.Denied, palyra.ReasonReplayedSignature, "the signature was used before").
				WithRemedy("sign the request anew")
		}
		if op.Passkey != nil {
			if err := counts(tx, op, said); err != nil {
				return err
			}
		}
		return r.prune(tx, now)
	})
}

// prune forgets signatures that are far out of the window and raises the floor over them, both or neither.
func (r *Registry) prune(tx *store.Tx, now time.Time) error {
	r.mu.Lock()
	due := now.Sub(r.pruned) >= pruneEvery || now.Before(r.pruned)
	if due {
		r.pruned = now
	}
	r.mu.Unlock()
	if !due {
		return nil
	}
	cut := now.Add(-keep).UnixNano()
	if _, err := tx.Exec(`UPDATE access_floor SET time = ? WHERE id = 1 AND time < ?`, cut, cut); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM access_intents WHERE time < ?`, cut)
	return err
}

func badSignature() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature, "the signature does not fit the request and this daemon").
		WithRemedy("sign the request as it is sent, for the daemon it is sent to")
}

func stale() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonStaleSignature, "the signature is too old, or from the future").
		WithRemedy("set the clock and sign the request anew")
}
