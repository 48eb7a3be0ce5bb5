package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"palyra"
)

const (
	fileVersion = 1
	maxFile     = 16 << 10
)

// file is a key file: JSON, so that a person can see which key it is. Exactly one of Seed and Protected is set.
type file struct {
	Version   int    `json:"palyra_operator_key"`
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
	CreatedAt string `json:"created_at"`
	Seed      string `json:"seed,omitempty"`
	Protected string `json:"protected,omitempty"` // age file, base64
}

func readFile(path string) (file, error) {
	h, err := openOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no operator key at %s", path).
			WithRemedy("run 'palyra up' once, or say where the key is").WithCause(err)
	}
	if err != nil {
		return file{}, err
	}
	defer func() { _ = h.Close() }()
	raw, err := io.ReadAll(io.LimitReader(h, maxFile+1))
	if err != nil {
		return file{}, fmt.Errorf("identity: read: %w", err)
	}
	defer clear(raw)
	return parse(raw)
}

func parse(raw []byte) (file, error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if len(raw) > maxFile || dec.Decode(&f) != nil || dec.More() {
		return file{}, damaged("it is not a key file")
	}
	if f.Version != fileVersion {
		return file{}, damaged("it is of another version")
	}
	if (f.Seed == "") == (f.Protected == "") {
		return file{}, damaged("it must hold the secret half once, bare or protected")
	}
	return f, nil
}

func (f file) public() (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(f.PublicKey)
	if err != nil || len(b) != ed25519.PublicKeySize || KeyID(b) != f.KeyID {
		return nil, damaged("the public half does not fit the key id")
	}
	return b, nil
}

func (f file) bare(pub ed25519.PublicKey) (palyra.Secret, error) {
	seed, err := base64.StdEncoding.Strict().DecodeString(f.Seed)
	if err != nil {
		return palyra.Secret{}, damaged("the secret half is not base64")
	}
	return fits(seed, pub)
}

// write puts a new file in place whole: a temporary one in the same directory, synced, then linked
// where there must be none. A crash leaves nothing, or at worst a temporary file nobody reads.
func (f file) write(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("identity: write: %w", err)
	}
	if err := checkDir(dir); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	defer clear(raw)
	tmp, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return fmt.Errorf("identity: write: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(append(raw, '\n'))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("identity: write: %w", err)
	}
	return place(tmp.Name(), path)
}

func place(tmp, path string) error {
	err := os.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "there is already an operator key at %s", path)
	}
	if err != nil {
		return fmt.Errorf("identity: write: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("identity: write: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("identity: write: %w", err)
	}
	return nil
}

func damaged(why string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the operator key file is damaged: %s", why).
		WithRemedy("restore it from a backup, or have another owner add a new key")
}

func unsafePath(path, why, remedy string) error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s: %s", path, why).WithRemedy("%s", remedy)
}
