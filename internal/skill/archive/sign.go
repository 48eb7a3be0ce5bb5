package archive

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/skill"
)

// PredicateType is the type of the statement that is signed.
const PredicateType = "https://palyra.dev/skill/package/v1"

// statement is an in-toto statement about all entries but the signature.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     about     `json:"predicate"`
}

type subject struct {
	Name   string    `json:"name"`
	Digest digestSet `json:"digest"`
}

type digestSet struct {
	SHA256 string `json:"sha256"`
}

// about is what stands in the manifest as well: a signature is for one skill, version and publisher.
type about struct {
	Format    string `json:"format"`
	ID        string `json:"id"`
	Version   string `json:"version"`
	Publisher string `json:"publisher"`
}

// payload is the one text that is signed for these files.
func payload(m skill.Manifest, files map[string][]byte) ([]byte, error) {
	s := statement{
		Type: palyra.StatementType, PredicateType: PredicateType,
		Predicate: about{Format: m.Format, ID: m.ID, Version: m.Version, Publisher: m.Publisher},
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != Signature {
			sum := strings.TrimPrefix(string(palyra.SumBytes(files[name])), "sha256:")
			s.Subject = append(s.Subject, subject{Name: name, Digest: digestSet{SHA256: sum}})
		}
	}
	return canon.JSON(s)
}

// Sign returns a package with a signature of the key, in the place of one that it may have.
func Sign(p *Package, key ed25519.PrivateKey) ([]byte, error) {
	text, err := payload(p.Manifest, p.Files)
	if err != nil {
		return nil, err
	}
	sig := ed25519.Sign(key, dsse.PAE(palyra.PayloadType, text))
	env, err := canon.JSON(palyra.Envelope{
		PayloadType: palyra.PayloadType, Payload: base64.StdEncoding.EncodeToString(text),
		Signatures: []palyra.EnvelopeSignature{{
			KeyID: KeyID(key.Public().(ed25519.PublicKey)), Sig: base64.StdEncoding.EncodeToString(sig),
		}},
	})
	if err != nil {
		return nil, err
	}
	files := maps.Clone(p.Files)
	files[Signature] = append(env, '\n')
	return Pack(files)
}

// SignedBy is the id of the key that says it signed; nothing is checked.
func (p *Package) SignedBy() (string, error) {
	env, err := p.envelope()
	if err != nil {
		return "", err
	}
	return env.Signatures[0].KeyID, nil
}

// Verify refuses a package that was not signed by the key, with all of its entries as they are.
func (p *Package) Verify(key ed25519.PublicKey) error {
	env, err := p.envelope()
	if err != nil {
		return err
	}
	text, err := payload(p.Manifest, p.Files)
	if err != nil {
		return err
	}
	sig, err := canon.Base64(env.Signatures[0].Sig, ed25519.SignatureSize)
	switch {
	case err != nil:
		return refuse(skill.ReasonSignature, "its signature is none of Ed25519")
	case env.Signatures[0].KeyID != KeyID(key):
		return refuse(skill.ReasonSignature, "it is signed by the key %s, and not by %s", palyra.Clip(env.Signatures[0].KeyID, 64), KeyID(key))
	case env.Payload != base64.StdEncoding.EncodeToString(text):
		return refuse(skill.ReasonSignature, "its entries are not those that were signed")
	case !ed25519.Verify(key, dsse.PAE(palyra.PayloadType, text), sig):
		return refuse(skill.ReasonSignature, "its signature is not of the key %s", KeyID(key))
	}
	return nil
}

// envelope reads the signature, which has one form.
func (p *Package) envelope() (palyra.Envelope, error) {
	var env palyra.Envelope
	raw, ok := p.Files[Signature]
	if !ok {
		return env, refuse(skill.ReasonUnsigned, "nobody signed it").WithRemedy("its publisher signs it with 'palyra skills sign'")
	}
	bad := refuse(skill.ReasonSignature, "its signature is not a DSSE envelope with one signature")
	if err := canon.Strict(raw, &env); err != nil || len(env.Signatures) != 1 || env.PayloadType != palyra.PayloadType {
		return env, bad
	}
	again, err := canon.JSON(env)
	if err != nil || !bytes.Equal(append(again, '\n'), raw) {
		return env, bad
	}
	return env, nil
}
