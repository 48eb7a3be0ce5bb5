// Package webpush speaks to push services, which pass messages on to browsers: messages are encrypted for the browser (RFC 8291,
// in the coding aes128gcm of RFC 8188), and the sender shows a key of its own (VAPID, RFC 8292). It promises that a
// service reads nothing of a message, its length neither, and that no error names an endpoint. It sends one message; who
// is told, when, and where an endpoint may lead is for others.
package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Sizes of what a browser hands over, and of messages.
const (
	KeySize     = 65 // a point of P-256, uncompressed
	AuthSize    = 16
	MaxEndpoint = 2048
	MaxText     = 192  // of a message; shorter ones are filled up, so that all are of one length
	recordSize  = 4096 // one record
	saltSize    = 16
)

// Subscription is where a browser takes messages, and what they are encrypted for. Whoever has it can send.
type Subscription struct {
	Endpoint string
	Key      []byte
	Auth     []byte
}

// Check reports what is wrong with a subscription, in words that do not quote it.
func (s Subscription) Check() error {
	if _, err := s.Origin(); err != nil {
		return err
	}
	if len(s.Auth) != AuthSize {
		return fmt.Errorf("its secret has %d bytes, not %d", len(s.Auth), AuthSize)
	}
	if _, err := ecdh.P256().NewPublicKey(s.Key); err != nil || len(s.Key) != KeySize {
		return errors.New("its key is not a point of P-256, uncompressed")
	}
	return nil
}

// Origin is the push service of a subscription: what VAPID calls its audience.
func (s Subscription) Origin() (*url.URL, error) {
	u, err := url.Parse(s.Endpoint)
	odd := strings.ContainsFunc(s.Endpoint, func(r rune) bool { return r <= ' ' || r > '~' })
	if err != nil || odd || len(s.Endpoint) > MaxEndpoint || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Opaque != "" ||
		u.Fragment != "" || u.Host != strings.ToLower(u.Host) {
		return nil, errors.New("its address is not a plain one that begins with https://")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// Seal encrypts a message for a subscription.
func (s Subscription) Seal(text []byte) ([]byte, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("webpush: a message of %d bytes, at most %d", len(text), MaxText)
	}
	own, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("webpush: make a key: %w", err)
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt)                                           // never fails: the runtime aborts instead
	filled := append(append(make([]byte, 0, MaxText+1), text...), 2) // the last record ends with a 2, and zeros
	return s.seal(filled[:MaxText+1], own, salt)
}

// seal makes the one record of a message, which ends with its delimiter, and what stands before it.
func (s Subscription) seal(record []byte, own *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	aead, nonce, err := s.keys(own, salt)
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), salt...)
	out = binary.BigEndian.AppendUint32(out, recordSize)
	out = append(append(out, KeySize), own.PublicKey().Bytes()...)
	return aead.Seal(out, nonce, record, nil), nil
}

// keys derives what a message is encrypted with (RFC 8291, 3.4).
func (s Subscription) keys(own *ecdh.PrivateKey, salt []byte) (cipher.AEAD, []byte, error) {
	theirs, err := ecdh.P256().NewPublicKey(s.Key)
	if err != nil {
		return nil, nil, errors.New("webpush: the browser's key is no point of P-256")
	}
	shared, err := own.ECDH(theirs)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: agree: %w", err)
	}
	info := "WebPush: info\x00" + string(s.Key) + string(own.PublicKey().Bytes())
	input, err := hkdf.Key(sha256.New, shared, s.Auth, info, sha256.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: derive: %w", err)
	}
	key, err := hkdf.Key(sha256.New, input, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: derive: %w", err)
	}
	nonce, err := hkdf.Key(sha256.New, input, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: derive: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: derive: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	return aead, nonce, err
}
