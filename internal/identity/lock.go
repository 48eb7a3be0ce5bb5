package identity

import (
	"crypto/ed25519"
	"encoding/base64"

	"palyra"
	"palyra/internal/agefile"
)

// CheckPassphrase refuses a passphrase that is too short to put a key behind.
func CheckPassphrase(passphrase palyra.Secret) error {
	return passphrase.Use(func(pass []byte) error {
		if len(pass) < MinPassphrase {
			return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a passphrase needs %d characters or more; nothing was changed",
				MinPassphrase)
		}
		return nil
	})
}

// lock encrypts a seed under a passphrase.
func lock(seed, passphrase palyra.Secret) (string, error) {
	if err := CheckPassphrase(passphrase); err != nil {
		return "", err
	}
	var sealed []byte
	err := passphrase.Use(func(pass []byte) error {
		return seed.Use(func(b []byte) (err error) {
			sealed, err = agefile.Seal(b, pass)
			return err
		})
	})
	return base64.StdEncoding.EncodeToString(sealed), err
}

// open decrypts the seed and checks that it belongs to the public key, which stands outside the encryption.
func (f file) open(pub ed25519.PublicKey, passphrase func() (palyra.Secret, error)) (palyra.Secret, error) {
	if passphrase == nil {
		return palyra.Secret{}, palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired,
			"the operator key is behind a passphrase and nobody can be asked").
			WithRemedy("run the command on a terminal")
	}
	sealed, err := base64.StdEncoding.Strict().DecodeString(f.Protected)
	if err != nil {
		return palyra.Secret{}, damaged("the encrypted part is not base64")
	}
	pass, err := passphrase()
	if err != nil {
		return palyra.Secret{}, err
	}
	defer pass.Destroy()
	seed, err := unlock(sealed, pass)
	if err != nil {
		return palyra.Secret{}, err
	}
	return fits(seed, pub)
}

func unlock(sealed []byte, passphrase palyra.Secret) (seed []byte, err error) {
	err = passphrase.Use(func(pass []byte) (err error) {
		seed, err = agefile.Open(sealed, pass, ed25519.SeedSize)
		return err
	})
	if err != nil {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the passphrase does not open the operator key").WithCause(err)
	}
	return seed, nil
}

// fits takes over a seed if it is the public key's.
func fits(seed []byte, pub ed25519.PublicKey) (palyra.Secret, error) {
	if len(seed) != ed25519.SeedSize {
		clear(seed)
		return palyra.Secret{}, damaged("the secret half has the wrong size")
	}
	priv := ed25519.NewKeyFromSeed(seed)
	defer clear(priv)
	if !pub.Equal(priv.Public()) {
		clear(seed)
		return palyra.Secret{}, damaged("its two halves do not belong together")
	}
	return palyra.NewSecret(seed), nil
}
