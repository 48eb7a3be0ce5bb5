package enrol

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/webauthn"
)

// challenges makes the challenges of new passkeys: each is a session's, until the daemon ends. That one of them is used
// twice gains nothing: what lets a passkey in is a code that is good once, and a person's answer.
type challenges [sha256.Size]byte

func newChallenges() (c challenges) {
	_, _ = rand.Read(c[:]) // never fails: the runtime aborts instead
	return c
}

// forSession is the challenge of a session at a console.
func (c challenges) forSession(session, console string) []byte {
	mac := hmac.New(sha256.New, c[:])
	for _, part := range []string{session, console} {
		sum := sha256.Sum256([]byte(part))
		_, _ = mac.Write(sum[:])
	}
	return mac.Sum(nil)
}

// BeginPasskey implements the door's Passkeys.
func (v *Devices) BeginPasskey(ctx context.Context, p palyra.Principal, session, console string) (passkey.Request, error) {
	origin := passkey.ConsoleOrigin(console)
	host, ok := passkey.HostOf(origin)
	if !ok {
		return passkey.Request{}, palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "there are no passkeys at this address").
			WithRemedy("open the console by its own name: palyra console")
	}
	all, err := v.Access.Devices(ctx)
	if err != nil {
		return passkey.Request{}, err
	}
	user := sha256.Sum256([]byte(v.StateID + "\x00" + string(p)))
	ask := passkey.Request{Challenge: v.challenges.forSession(session, console), Host: host, User: user[:]}
	for _, d := range all {
		if d.Passkey == nil || !d.Live() || d.Principal != p || d.Passkey.Origin != origin {
			continue
		}
		if id, err := base64.RawURLEncoding.DecodeString(d.Passkey.Credential); err == nil {
			ask.Exclude = append(ask.Exclude, id)
		}
	}
	return ask, nil
}

// NewPasskey implements the door's Passkeys.
func (v *Devices) NewPasskey(made passkey.New, session, console string) (palyra.Passkey, string, error) {
	p, key, err := webauthn.Register(made, v.challenges.forSession(session, console), passkey.ConsoleOrigin(console))
	return p, key.Text(), err
}
