package invocation

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// MaxTries is how often a passphrase, or an answer, is asked for.
const MaxTries = 3

// personalKey is the operator's key file, opened at first use.
type personalKey struct {
	inv  *Invocation // of the command, which it does not outlive
	path string

	once   sync.Once
	asked  bool // a passphrase was typed
	signer *client.OperatorKey
	err    error
}

// KeyID implements client.Signer. Without a key it is empty and Sign returns the reason.
func (k *personalKey) KeyID() string {
	if s, err := k.open(); err == nil {
		return s.KeyID()
	}
	return ""
}

// Sign implements client.Signer. A wrong passphrase is asked for again.
func (k *personalKey) Sign(i palyra.Intent) (string, error) {
	s, err := k.open()
	if err != nil {
		return "", err
	}
	if s.Separation() == palyra.SeparationPassphrase && k.inv.AskSecret == nil {
		defer terminal.Hush()()
	}
	for try := 1; ; try++ {
		sig, err := s.Sign(i)
		if err == nil || !k.asked || try == MaxTries || palyra.AsError(err).Reason != palyra.ReasonBadCredential {
			return sig, err
		}
		fmt.Fprintf(k.inv.Stderr, "palyra: the passphrase is wrong; %d of %d tries are left%s", MaxTries-try, MaxTries, k.inv.lineEnd())
	}
}

func (k *personalKey) open() (*client.OperatorKey, error) {
	k.once.Do(func() {
		k.signer, k.err = client.LoadSigner(k.path, func() (palyra.Secret, error) {
			pass, err := k.inv.Secret(k.inv.Context, "Passphrase of the operator key "+show.Line(k.path)+": ")
			if k.asked = err == nil; err != nil && k.inv.Context.Err() == nil && palyra.AsError(err).Reason == palyra.ReasonUnsupported {
				err = exit.Failedf(palyra.ReasonUnsupported,
					"this needs your signature, the operator key %s is behind a passphrase, and there is no terminal to ask on", k.path).
					WithRemedy("run it from a terminal; the passphrase is taken from nowhere else").WithCause(err)
			}
			return pass, err
		})
	})
	return k.signer, k.err
}

// Separation is that of the person's own key; "" without one.
func (inv *Invocation) Separation() palyra.Separation {
	if inv.RemoteName() != "" {
		return palyra.SeparationDevice
	}
	paths, err := inv.Paths()
	if err != nil {
		return ""
	}
	s, err := client.LoadSigner(paths.OperatorKey, nil)
	if err != nil {
		return ""
	}
	defer s.Close()
	return s.Separation()
}

// NewPassphrase asks for a passphrase twice.
func (inv *Invocation) NewPassphrase(ctx context.Context) (palyra.Secret, error) {
	defer terminal.Hush()()
	first, err := inv.Secret(ctx, fmt.Sprintf("New passphrase, %d characters or more: ", client.MinPassphrase))
	if err != nil {
		return first, err
	}
	if err := client.CheckPassphrase(first); err != nil {
		first.Destroy()
		return palyra.Secret{}, err
	}
	again, err := inv.Secret(ctx, "The same again: ")
	if err != nil {
		first.Destroy()
		return palyra.Secret{}, err
	}
	defer again.Destroy()
	same := false
	_ = first.Use(func(a []byte) error {
		return again.Use(func(b []byte) error { same = bytes.Equal(a, b); return nil })
	})
	if !same {
		first.Destroy()
		return palyra.Secret{}, exit.Failedf(palyra.ReasonMalformedInput, "the two passphrases differ; nothing was changed")
	}
	return first, nil
}
