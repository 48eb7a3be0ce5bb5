// Package webpushtest is a browser that takes messages of a push service, and what such a service checks of their sender. It is
// written from RFC 8188, 8291 and 8292, and shares no code with what sends.
package webpushtest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// Browser has the secret half of a subscription.
type Browser struct {
	Key  *ecdh.PrivateKey
	Auth []byte
}

// New makes one.
func New(t testing.TB) Browser {
	t.Helper()
	k, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth)
	return Browser{k, auth}
}

// Open decrypts the body of a message.
func (b Browser) Open(body []byte) ([]byte, error) {
	const head = 16 + 4 + 1
	if len(body) < head+65 || body[20] != 65 {
		return nil, errors.New("webpushtest: the header is short, or names no key")
	}
	salt, size, theirs, record := body[:16], binary.BigEndian.Uint32(body[16:20]), body[head:head+65], body[head+65:]
	if int(size) < len(record) {
		return nil, errors.New("webpushtest: there is more than one record")
	}
	pub, err := ecdh.P256().NewPublicKey(theirs)
	if err != nil {
		return nil, fmt.Errorf("webpushtest: %w", err)
	}
	shared, err := b.Key.ECDH(pub)
	if err != nil {
		return nil, fmt.Errorf("webpushtest: %w", err)
	}
	derive := func(secret, salt []byte, info string, n int) []byte {
		out, derr := hkdf.Key(sha256.New, secret, salt, info, n)
		err = errors.Join(err, derr)
		return out
	}
	input := derive(shared, b.Auth, "WebPush: info\x00"+string(b.Key.PublicKey().Bytes())+string(theirs), 32)
	key, nonce := derive(input, salt, "Content-Encoding: aes128gcm\x00", 16), derive(input, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, fmt.Errorf("webpushtest: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("webpushtest: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("webpushtest: %w", err)
	}
	plain, err := gcm.Open(nil, nonce, record, nil)
	if err != nil {
		return nil, fmt.Errorf("webpushtest: %w", err)
	}
	plain = bytes.TrimRight(plain, "\x00")
	text, ok := bytes.CutSuffix(plain, []byte{2})
	if !ok {
		return nil, errors.New("webpushtest: it is not the last record")
	}
	return text, nil
}

// Said is what a sender says of itself.
type Said struct {
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	Subject  string `json:"sub"`
}

// Claims checks the Authorization header of a message against the key that the browser subscribed with.
func Claims(header string, key []byte) (s Said, err error) {
	token, point, ok := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if !ok || !strings.HasPrefix(header, "vapid ") || len(parts) != 3 {
		return s, fmt.Errorf("webpushtest: %q is no header of VAPID", header)
	}
	raw := make([][]byte, 4)
	for i, text := range append(parts, point) {
		if raw[i], err = base64.RawURLEncoding.Strict().DecodeString(text); err != nil {
			return s, fmt.Errorf("webpushtest: %w", err)
		}
	}
	pub, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), key)
	if err != nil || !bytes.Equal(raw[3], key) || len(raw[2]) != 64 {
		return s, fmt.Errorf("webpushtest: the key is another: %w", err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(pub, sum[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:])) {
		return s, errors.New("webpushtest: the signature does not hold")
	}
	return s, json.Unmarshal(raw[1], &s)
}
