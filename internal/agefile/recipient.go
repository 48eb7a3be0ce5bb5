package agefile

import (
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// ErrOther means that a file was sealed for another recipient.
var ErrOther = errors.New("agefile: it is sealed for another key")

// Pair makes an identity, which opens what is sealed for its recipient. The recipient is no secret.
func Pair() (identity []byte, recipient string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", fmt.Errorf("agefile: pair: %w", err)
	}
	return []byte(id.String()), id.Recipient().String(), nil
}

// RecipientOf is the recipient of an identity.
func RecipientOf(identity []byte) (string, error) {
	id, err := age.ParseX25519Identity(string(identity))
	if err != nil {
		return "", errors.New("agefile: it is no identity") // the cause may quote it
	}
	return id.Recipient().String(), nil
}

// SealFor returns a writer of a text that only the recipient's identity opens. The file is whole when the writer is closed.
func SealFor(to io.Writer, recipient string) (io.WriteCloser, error) {
	r, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		return nil, fmt.Errorf("agefile: seal: %w", err)
	}
	w, err := age.Encrypt(to, r)
	if err != nil {
		return nil, fmt.Errorf("agefile: seal: %w", err)
	}
	return w, nil
}

// OpenBy returns the text of a file that was sealed for an identity's recipient. What is read is authentic; that it is
// all of it, is known at its end.
func OpenBy(from io.Reader, identity []byte) (io.Reader, error) {
	id, err := age.ParseX25519Identity(string(identity))
	if err != nil {
		return nil, errors.New("agefile: it is no identity")
	}
	text, err := age.Decrypt(from, id)
	if wrong := (*age.NoIdentityMatchError)(nil); errors.As(err, &wrong) {
		return nil, errors.Join(ErrOther, err)
	}
	if err != nil {
		return nil, errors.Join(ErrChanged, err)
	}
	return changed{text}, nil
}

// changed says of what does not open that it was changed.
type changed struct{ io.Reader }

// Read implements io.Reader.
func (c changed) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.Join(ErrChanged, err)
	}
	return n, err
}
