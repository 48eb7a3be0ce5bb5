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

// Cost is the cost of one guess at a passphrase, as a power of two: about a second. maxFactor bounds what a file may
// make us spend.
const (
	Cost      = 18
	maxFactor = 20
)

// cost is Cost, except in tests that are not about it.
var cost = Cost

// Cheapen makes a guess at what this process seals cost next to nothing. It is for tests only, which package layers
// checks; a TestMain calls it.
func Cheapen() { cost = 2 }

// MinPassphrase is the shortest passphrase that something is put behind, in bytes.
const MinPassphrase = 12

// Why a text does not open.
var (
	// ErrPassphrase means that a passphrase does not open a text, or that the text was changed.
	ErrPassphrase = errors.New("agefile: the passphrase does not open it")
	// ErrForeign means that a file is none of age.
	ErrForeign = errors.New("agefile: not a file of age")
	// ErrChanged means that a file was changed or cut short.
	ErrChanged = errors.New("agefile: the file was changed or cut short")
)

// magic is how a file of age begins.
const magic = "age-encryption.org/v1\n"

// NewWriter returns a writer of a text under a passphrase. The file is whole when the writer is closed.
func NewWriter(to io.Writer, passphrase []byte) (io.WriteCloser, error) {
	r, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return nil, fmt.Errorf("agefile: seal: %w", err)
	}
	r.SetWorkFactor(cost)
	w, err := age.Encrypt(to, r)
	if err != nil {
		return nil, fmt.Errorf("agefile: seal: %w", err)
	}
	return w, nil
}

// NewReader returns the text of a file of any size, which is read as it is needed. What is read is authentic; that all
// of it is, is known when all of it was read. Reading what was changed gives ErrChanged.
func NewReader(from io.ReaderAt, size int64, passphrase []byte) (*io.SectionReader, error) {
	begin := make([]byte, len(magic))
	if n, err := from.ReadAt(begin, 0); n < len(magic) || string(begin) != magic {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("agefile: open: %w", err)
		}
		return nil, ErrForeign
	}
	id, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, errors.Join(ErrPassphrase, err)
	}
	id.SetMaxWorkFactor(maxFactor)
	text, n, err := age.DecryptReaderAt(from, size, id)
	if wrong := (*age.NoIdentityMatchError)(nil); errors.As(err, &wrong) {
		return nil, errors.Join(ErrPassphrase, err)
	}
	if err != nil {
		return nil, errors.Join(ErrChanged, err)
	}
	return io.NewSectionReader(authentic{text}, 0, n), nil
}

// authentic says of what does not open that it was changed.
type authentic struct{ io.ReaderAt }

// ReadAt implements io.ReaderAt.
func (a authentic) ReadAt(p []byte, off int64) (int, error) {
	n, err := a.ReaderAt.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(ErrChanged, err)
	}
	return n, err
}

// Seal encrypts a text under a passphrase.
func Seal(text, passphrase []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := NewWriter(&out, passphrase)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
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
