// Package agefile puts text behind a passphrase, as a file that the age tool opens too. It is the one home of the age
// library.
package agefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// workFactor is the cost of one guess at a passphrase, as a power of two:
// about a second. maxFactor bounds what a file may make us spend.
const (
	workFactor = 18
	maxFactor  = 20
)

// ErrPassphrase means that a passphrase does not open a text, or that the text was changed.
var ErrPassphrase = errors.New("agefile: the passphrase does not open it")

// Seal encrypts a text under a passphrase.
func Seal(text, passphrase []byte) ([]byte, error) {
	to, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return nil, fmt.Errorf("agefile: seal: %w", err)
	}
	to.SetWorkFactor(workFactor)
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("agefile: seal: %w", err)
	}
	return out.Bytes(), nil
}

// Open decrypts a text of at most limit bytes.
func Open(sealed, passphrase []byte, limit int64) ([]byte, error) {
	id, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, errors.Join(ErrPassphrase, err)
	}
	id.SetMaxWorkFactor(maxFactor)
	r, err := age.Decrypt(bytes.NewReader(sealed), id)
	if err != nil {
		return nil, errors.Join(ErrPassphrase, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		clear(text)
		return nil, errors.Join(ErrPassphrase, err)
	case int64(len(text)) > limit:
		clear(text)
		return nil, fmt.Errorf("agefile: more than %d bytes", limit)
	}
	return text, nil
}
