package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/attest/attesttest"
)

// Each byte of what a passkey signed counts, also where a daemon gone bad puts its own signature around the change.
func TestEveryByteOfAPasskeysAnswer(t *testing.T) {
	check := check(t)
	parts := map[string]func(*palyra.Signature) *string{
		"signature":                func(s *palyra.Signature) *string { return &s.Sig },
		"authenticator's data":     func(s *palyra.Signature) *string { return &s.Assertion.AuthenticatorData },
		"what the browser put up":  func(s *palyra.Signature) *string { return &s.Assertion.ClientData },
		"key":                      func(s *palyra.Signature) *string { return &s.PublicKey },
		"nonce, as it was written": func(s *palyra.Signature) *string { return &s.Intent.Nonce },
	}
	n := 0
	for name, part := range parts {
		for i := 0; ; i++ {
			changed := false
			r := attesttest.NewRun()
			r.Predicate.Decision.Votes = nil
			r.ByPasskey(attesttest.AdasPasskey, "user:ada", nil, func(s *palyra.Signature) {
				text := part(s)
				raw := []byte(*text)
				encoded := strings.HasPrefix(name, "nonce")
				if !encoded {
					raw, _ = base64.StdEncoding.DecodeString(*text)
				}
				if changed = i < len(raw); !changed {
					return
				}
				raw[i] ^= byte(1 + i%255)
				if *text = string(raw); !encoded {
					*text = base64.StdEncoding.EncodeToString(raw)
				}
			})
			_, envelope := r.Seal()
			if err := check(envelope); (err == nil) == changed {
				t.Errorf("%s, byte %d: %v", name, i, err)
			} else if err != nil && strings.Contains(err.Error(), "runtime error") {
				t.Errorf("%s, byte %d: refused by accident: %v", name, i, err)
			}
			if !changed {
				break
			}
			n++
		}
	}
	if n < 200 {
		t.Errorf("only %d changes were tried", n)
	}
}

// A reader pins a passkey as any other approver's key.
func TestPasskeysArePinned(t *testing.T) {
	_, envelope := attesttest.PasskeyRun().Seal()
	daemon := attesttest.Daemon.Public()
	for key, code := range map[string]int{
		attesttest.AdasPasskey.Public(): 0, attesttest.BobsPasskey.Public(): 1, attesttest.Ada.Public(): 1, "AAAA": 2,
	} {
		if got, out, errs := runs(t, envelope, "--key", daemon, "--operator-key", key); got != code {
			t.Errorf("%s: exit %d\n%s%s", key, got, out, errs)
		}
	}
}
