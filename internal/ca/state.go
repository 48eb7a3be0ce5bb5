package ca

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/durable"
)

const (
	stateVersion = 1
	maxState     = 64 << 10
	certExt      = ".crt"
	certType     = "CERTIFICATE"
)

// state is everything an authority remembers. It is never changed, only replaced.
type state struct {
	issuers []*issuer // newest first; the first has its key, the others have not
	longest int       // days; no device certificate was ever made to hold longer
}

func (s *state) serving(now time.Time) []*issuer {
	if len(s.issuers) == 0 {
		return nil
	}
	out := s.issuers[:1:1]
	for _, i := range s.issuers[1:] {
		if !now.After(i.until) {
			out = append(out, i)
		}
	}
	return out
}

// keptState is the state as the keeper holds it.
type keptState struct {
	Version     int          `json:"palyra_ca"`
	LongestDays int          `json:"longest_days"`
	Authorities []keptIssuer `json:"authorities"`
}

type keptIssuer struct {
	Certificate []byte    `json:"certificate"`
	Seed        []byte    `json:"seed,omitempty"`
	From        *Rotation `json:"from,omitempty"`
	RetiredAt   time.Time `json:"retired_at,omitzero"`
	Until       time.Time `json:"until,omitzero"`
	Leaf        []byte    `json:"leaf,omitempty"`
	LeafSeed    []byte    `json:"leaf_seed,omitempty"`
}

func (k *keptState) wipe() {
	for _, i := range k.Authorities {
		clear(i.Seed)
		clear(i.LeafSeed)
	}
}

func (s *state) encode() (palyra.Secret, error) {
	k := keptState{Version: stateVersion, LongestDays: s.longest}
	defer k.wipe()
	for _, i := range s.issuers {
		e := keptIssuer{Certificate: i.cert.Raw, From: i.from, RetiredAt: i.retired, Until: i.until}
		if i.key != nil {
			e.Seed = i.key.copy()
		} else {
			key, ok := i.last.PrivateKey.(*signer)
			if !ok {
				return palyra.Secret{}, errors.New("ca: store: a retired authority has no server leaf")
			}
			e.Leaf, e.LeafSeed = i.last.Leaf.Raw, key.copy()
		}
		k.Authorities = append(k.Authorities, e)
	}
	raw, err := json.Marshal(k)
	if err != nil || len(raw) > maxState {
		clear(raw)
		return palyra.Secret{}, errors.New("ca: store: the state cannot be encoded")
	}
	return palyra.NewSecret(raw), nil
}

func (s *signer) copy() []byte {
	var out []byte
	_ = s.seed.Use(func(seed []byte) error { out = slices.Clone(seed); return nil })
	return out
}

// decode reads what encode wrote and believes none of it unchecked: a keeper may
// give back something old, something cut, or something else.
func decode(raw []byte) (*state, error) {
	var k keptState
	defer func() { k.wipe() }()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	// The decoder's error may quote the text: it is not passed on.
	if len(raw) > maxState || dec.Decode(&k) != nil || dec.More() {
		return nil, damaged("it is not the state of an authority")
	}
	if k.Version != stateVersion {
		return nil, damaged("it is of another version")
	}
	if n := len(k.Authorities); n < 1 || n > mostIssuers || k.LongestDays < 1 || k.LongestDays > mostDays {
		return nil, damaged("its numbers are out of range")
	}
	st := &state{longest: k.LongestDays}
	for n, e := range k.Authorities {
		i, err := e.issuer(n == 0)
		if err != nil {
			return nil, err
		}
		st.issuers = append(st.issuers, i)
	}
	return st, nil
}

func (e keptIssuer) issuer(current bool) (*issuer, error) {
	i, err := parseIssuer(e.Certificate)
	if err != nil {
		return nil, damaged("a certificate in it is not an authority's")
	}
	i.from, i.retired, i.until = e.From, e.RetiredAt, e.Until
	if i.from != nil {
		if i.from.New.ID != i.id || CheckRotation(*i.from) != nil {
			return nil, damaged("a rotation in it is not signed by the authority before")
		}
	}
	if current {
		return i, i.take(e)
	}
	return i, i.takeLast(e)
}

// take fills in the current authority's key.
func (i *issuer) take(e keptIssuer) error {
	if len(e.Seed) != ed25519.SeedSize || e.Leaf != nil || e.LeafSeed != nil || !e.RetiredAt.IsZero() {
		return damaged("the current authority has no key")
	}
	i.key = signerOf(slices.Clone(e.Seed))
	if !i.key.pub.Equal(i.cert.PublicKey) {
		return damaged("the key does not fit the certificate")
	}
	return nil
}

// takeLast fills in a retired authority's server leaf.
func (i *issuer) takeLast(e keptIssuer) error {
	if e.Seed != nil || len(e.LeafSeed) != ed25519.SeedSize || len(e.Leaf) > maxCert || e.RetiredAt.IsZero() || e.Until.IsZero() {
		return damaged("a retired authority lacks its server leaf")
	}
	leaf, err := x509.ParseCertificate(e.Leaf)
	if err != nil {
		return damaged("a server leaf does not parse")
	}
	key := signerOf(slices.Clone(e.LeafSeed))
	if !key.pub.Equal(leaf.PublicKey) || leaf.CheckSignatureFrom(i.cert) != nil || leaf.VerifyHostname(i.serverName()) != nil {
		return damaged("a server leaf is not its authority's")
	}
	i.last = i.chain(leaf, key)
	return nil
}

func damaged(why string) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the kept state of the device authority is damaged: %s", why).
		WithRemedy("restore it from a backup")
}

// published returns the certificate files there are.
func (a *Authority) published() ([]string, error) {
	if a.cfg.Certs == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(a.cfg.Certs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("ca: certificates: %w", err)
	}
	var names []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), certExt); ok && len(id) == idDigits && isHex(id) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// publish makes the directory of public certificates show the authorities in service and no other.
func (a *Authority) publish(st *state) error {
	if a.cfg.Certs == "" {
		return nil
	}
	if err := os.MkdirAll(a.cfg.Certs, 0o755); err != nil {
		return fmt.Errorf("ca: certificates: %w", err)
	}
	names, err := a.published()
	if err != nil {
		return err
	}
	for _, i := range st.serving(a.cfg.Now()) {
		text := pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: i.cert.Raw})
		path := filepath.Join(a.cfg.Certs, i.id+certExt)
		names = slices.DeleteFunc(names, func(n string) bool { return n == i.id+certExt })
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			continue
		}
		if err := durable.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("ca: certificates: %w", err)
		}
	}
	for _, n := range names {
		if err := os.Remove(filepath.Join(a.cfg.Certs, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("ca: certificates: %w", err)
		}
	}
	return nil
}
