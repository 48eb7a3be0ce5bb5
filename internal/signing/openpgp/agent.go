package openpgp

import (
	"bytes"
	"context"
	"crypto"
	_ "crypto/sha512" // of signatures
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"palyra/internal/signing/gpgagent"
)

// Public reports whether a text may be a public key of OpenPGP.
func Public(text string) bool { return strings.Contains(text, "-----BEGIN PGP PUBLIC KEY BLOCK-----") }

// InAgent finds the private half of a public key, as 'gpg --export --armor' writes it, in the gpg-agent at a socket.
func InAgent(ctx context.Context, socket, text string, now time.Time) (*Key, error) {
	list, err := openpgp.ReadArmoredKeyRing(strings.NewReader(text))
	if err != nil || len(list) != 1 {
		return nil, unusable("it is not one public key of OpenPGP").
			WithRemedy("give what 'gpg --armor --export-options export-minimal --export KEY' prints, of one key")
	}
	k := &Key{entity: list[0], socket: socket}
	signer, ok := k.entity.SigningKey(now)
	if !ok || signer.PublicKey == nil || signer.PublicKey.Version != 4 || !agentSigns[signer.PublicKey.PubKeyAlgo] {
		return nil, unusable("the key does not sign: it has expired, was revoked, or is of a kind that is not known").
			WithRemedy("give one that does: RSA, ECDSA or Ed25519")
	}
	var public bytes.Buffer
	if err := signer.PublicKey.Serialize(&public); err != nil {
		return nil, unusable("the key cannot be read")
	}
	k.grip, err = gpgagent.Find(ctx, socket, public.Bytes())
	return k, err
}

// agentSigns are the kinds of keys with which an agent signs for us.
var agentSigns = map[packet.PublicKeyAlgorithm]bool{
	packet.PubKeyAlgoRSA: true, packet.PubKeyAlgoRSASignOnly: true, packet.PubKeyAlgoECDSA: true, packet.PubKeyAlgoEdDSA: true,
}

// Numbers of RFC 9580.
const (
	packetSignature = 0xC2
	hashSHA512      = 10
	subCreated      = 2
	subIssuer       = 16
	subFingerprint  = 33
)

// signInAgent has the agent sign, and makes a packet of it.
func (k *Key) signInAgent(ctx context.Context, text []byte, now time.Time) ([]byte, error) {
	signer, ok := k.entity.SigningKey(now)
	if !ok {
		return nil, unusable("the key does not sign any more")
	}
	p := signer.PublicKey
	created := binary.BigEndian.AppendUint32([]byte{5, subCreated}, uint32(now.Unix()))
	hashed := append(append([]byte{byte(2 + len(p.Fingerprint)), subFingerprint, 4}, p.Fingerprint...), created...)
	head := append(binary.BigEndian.AppendUint16([]byte{4, 0, byte(p.PubKeyAlgo), hashSHA512}, uint16(len(hashed))), hashed...)
	h := crypto.SHA512.New()
	_, _ = h.Write(text)
	_, _ = h.Write(head)
	_, _ = h.Write(binary.BigEndian.AppendUint32([]byte{4, 0xff}, uint32(len(head))))
	sum := h.Sum(nil)
	said := "Palyra signs a commit or tag that was shown and allowed, with the key " + strings.ToUpper(hex.EncodeToString(p.Fingerprint))
	values, err := gpgagent.Sign(ctx, k.socket, k.grip, said, sum)
	if err != nil {
		return nil, err
	}
	body := append(head, 0, 10, 9, subIssuer)
	body = append(binary.BigEndian.AppendUint64(body, p.KeyId), sum[:2]...)
	for _, name := range []string{"r", "s"} {
		if v, ok := values[name]; ok {
			n := new(big.Int).SetBytes(v)
			body = append(binary.BigEndian.AppendUint16(body, uint16(n.BitLen())), n.Bytes()...)
		}
	}
	raw := append(binary.BigEndian.AppendUint32([]byte{packetSignature, 0xff}, uint32(len(body))), body...)
	_, err = openpgp.CheckDetachedSignature(openpgp.EntityList{k.entity}, bytes.NewReader(text), bytes.NewReader(raw),
		&packet.Config{Time: func() time.Time { return now }})
	if err != nil { // whatever the agent signed, it was not this
		return nil, unusable("the signature of the gpg-agent is not good")
	}
	return raw, nil
}
