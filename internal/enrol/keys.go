package enrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"palyra"
	"palyra/internal/ca"
	"palyra/internal/journal"
	"palyra/internal/keyring"
	"palyra/internal/rpc/wire"
)

// Keys is every signing key of the daemon: the ring's and the authority's.
type Keys struct {
	*keyring.Ring
	Authority *ca.Authority
	Kept      *ca.Movable                                           // the authority's keys, and that for push services
	Vault     func(by palyra.Principal, sig palyra.Signature) Vault // what is changed there is on record as theirs
	Journal   *journal.Journal
}

// Vault keeps keys that were moved into it.
type Vault = ca.Vault

// Where is in which places the private halves are.
func (p Keys) Where(ctx context.Context) []wire.KeyPlace {
	var out []wire.KeyPlace
	for _, use := range keyring.Uses() {
		at, err := p.Place(use)
		out = append(out, placeOf(use, at, err))
	}
	at, err := p.Authority.Place(ctx, p.Kept)
	out = append(out, placeOf(UseCA, keyring.Place{File: at.File, Vault: at.Vault}, err))
	if at, err = p.Kept.Place(ctx, string(palyra.KeyPush)); at == (ca.Place{}) && err == nil { // console.push was never set
		return out
	}
	key, loading := p.Kept.Load(ctx, string(palyra.KeyPush))
	key.Destroy()
	return append(out, placeOf(palyra.KeyPush, keyring.Place{File: at.File, Vault: at.Vault}, errors.Join(err, loading)))
}

// placeOf is a place in words, and why the key cannot be used.
func placeOf(use palyra.KeyUse, at keyring.Place, err error) wire.KeyPlace {
	out := wire.KeyPlace{Use: use, Place: wire.PlaceFile}
	switch {
	case at.Credential:
		out.Place = wire.PlaceCredential
	case at.File && at.Vault:
		out.Place = wire.PlaceBoth
	case at.Vault:
		out.Place = wire.PlaceVault
	}
	if err != nil {
		e := palyra.AsError(err)
		out.Locked, out.Remedy = e.Text, e.Remedy
	}
	return out
}

// Move moves those private halves that can be moved into the vault, or back into files. The journal's stays in its file: it
// signs while the vault is locked, and the vault is held against what it signed.
func (p Keys) Move(ctx context.Context, to string, by palyra.Principal, sig palyra.Signature) ([]wire.KeyPlace, error) {
	if to != MoveVault && to != MoveFiles {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "keys are not moved to %q", palyra.Clip(to, 40)).
			WithRemedy("say %s or %s", MoveVault, MoveFiles)
	}
	ctx = context.WithoutCancel(ctx)
	for _, use := range keyring.Movable() {
		if err := p.Ring.Move(ctx, use, to == MoveVault, p.Vault(by, sig)); err != nil {
			return nil, err
		}
	}
	if err := p.Authority.Move(ctx, p.Kept, to == MoveVault, p.Vault(by, sig)); err != nil {
		return nil, err
	}
	at, err := p.Kept.Place(ctx, string(palyra.KeyPush))
	if err == nil && at != (ca.Place{}) {
		err = p.Kept.Move(ctx, string(palyra.KeyPush), to == MoveVault, p.Vault(by, sig))
	}
	if err != nil {
		return nil, err
	}
	return p.Where(ctx), nil
}

// Problems says which keys cannot be used now, and what to do.
func (p Keys) Problems(ctx context.Context) (out []string) {
	for _, k := range p.Where(ctx) {
		if k.Locked != "" && k.Use != palyra.KeyPush { // what needs that one says so
			out = append(out, fmt.Sprintf("%s; until then %s; remedy: %s", k.Locked, lacking[k.Use], k.Remedy))
		}
	}
	return out
}

// lacking is what does not go on without a key.
var lacking = map[palyra.KeyUse]string{
	palyra.KeyJournal:     "nothing is recorded",
	palyra.KeyAttestation: "calls are refused, as what they do could not be attested",
	palyra.KeyCA:          "no device comes in",
}

// Where keys are moved to.
const (
	MoveVault = "vault"
	MoveFiles = "files"
)

// UseCA is the use of the authority's keys.
const UseCA = palyra.KeyCA

// List implements the door's Ring.
func (p Keys) List() []palyra.Key {
	list := p.Ring.List()
	for _, r := range p.Authority.Rotations() {
		list = append(list, r.Old)
	}
	if key := p.Authority.Key(); key.ID != "" {
		list = append(list, key)
	}
	return list
}

// Rotate implements the door's Ring.
func (p Keys) Rotate(ctx context.Context, use palyra.KeyUse, by palyra.Principal) (palyra.Key, error) {
	if use != UseCA {
		return p.Ring.Rotate(ctx, use, by)
	}
	old, next, sig, err := p.Authority.Rotate(ctx)
	if err != nil {
		return palyra.Key{}, err
	}
	_, err = p.Journal.Record(context.WithoutCancel(ctx), palyra.KeyRotated{Use: UseCA, Old: old.ID, Key: next, By: by, Sig: sig})
	return next, err
}

// RecordAuthority puts the authority's keys on record that are not: the first one,
// and one that came when the daemon died before it could say so.
func (p Keys) RecordAuthority(ctx context.Context) error {
	known := map[string]bool{}
	for _, kind := range []string{"key.created", "key.rotated"} {
		err := p.Journal.Bodies(ctx, kind, func(raw []byte) error {
			var e struct {
				Key palyra.Key `json:"key"`
			}
			err := json.Unmarshal(raw, &e)
			known[e.Key.ID] = true
			return err
		})
		if err != nil {
			return err
		}
	}
	var events []palyra.Event
	if p.Authority.Ready() != nil { // the next start with an open vault does it
		return nil
	}
	rotations := p.Authority.Rotations()
	first := p.Authority.Key()
	if len(rotations) > 0 {
		first = rotations[0].Old
	}
	if !known[first.ID] {
		events = append(events, palyra.KeyCreated{Key: first})
	}
	for _, r := range rotations {
		if !known[r.New.ID] {
			events = append(events, palyra.KeyRotated{Use: UseCA, Old: r.Old.ID, Key: r.New, By: palyra.SystemDaemon, Sig: r.Sig})
		}
	}
	if len(events) == 0 {
		return nil
	}
	_, err := p.Journal.Record(ctx, events...)
	return err
}
