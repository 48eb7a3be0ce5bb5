package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/secrets"
)

// blind returns random bytes that hide what is secret in a request from whoever sees the digest that is signed.
func blind() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return b
}

// PutSecret keeps a value as the next version of a secret (signed).
func (c *Client) PutSecret(ctx context.Context, in secrets.Value) (secrets.Info, error) {
	req := &v1.PutSecretRequest{Scope: string(in.Scope), Name: in.Name, Unmasked: in.Unmasked, First: in.First, Blind: blind()}
	if !in.Expires.IsZero() {
		req.ExpiresAt = timestamppb.New(in.Expires.UTC().Truncate(time.Second))
	}
	var info secrets.Info
	err := in.Value.Use(func(b []byte) error {
		req.Value = b
		res, err := c.vault().PutSecret(ctx, req)
		info, err = word[secrets.Info](res.GetSecret(), err)
		return err
	})
	return info, err
}

// RevealSecret returns the value of a secret (signed); version 0: the last.
func (c *Client) RevealSecret(ctx context.Context, scope secrets.Scope, name string, version int64) (palyra.Secret, secrets.Info, error) {
	res, err := c.vault().RevealSecret(ctx, &v1.RevealSecretRequest{Scope: string(scope), Name: name, Version: version})
	info, err := word[secrets.Info](res.GetSecret(), err)
	return palyra.NewSecret(res.GetValue()), info, err
}

// Secrets lists what may be told of every version of every secret.
func (c *Client) Secrets(ctx context.Context) ([]secrets.Info, error) {
	res, err := c.vault().ListSecrets(ctx, &v1.ListSecretsRequest{})
	return words[secrets.Info](res, err, "secrets")
}

// DeleteSecret removes a secret (signed); version 0: with all its versions.
func (c *Client) DeleteSecret(ctx context.Context, scope secrets.Scope, name string, version int64) error {
	_, err := c.vault().DeleteSecret(ctx, &v1.DeleteSecretRequest{Scope: string(scope), Name: name, Version: version})
	return failure(err)
}

// RotateVault puts the vault under a new key (signed); no keeper: of the same one.
func (c *Client) RotateVault(ctx context.Context, keeper string, passphrase palyra.Secret) error {
	return passphrase.Use(func(b []byte) error {
		_, err := c.vault().RotateVault(ctx, &v1.RotateVaultRequest{Keeper: keeper, Passphrase: b, Blind: blind()})
		return failure(err)
	})
}

// UnlockVault opens a vault whose key is behind a passphrase (signed).
func (c *Client) UnlockVault(ctx context.Context, passphrase palyra.Secret) error {
	return passphrase.Use(func(b []byte) error {
		_, err := c.vault().UnlockVault(ctx, &v1.UnlockVaultRequest{Passphrase: b, Blind: blind()})
		return failure(err)
	})
}

// LockVault forgets the vault's key until it is needed again (signed).
func (c *Client) LockVault(ctx context.Context) error {
	_, err := c.vault().LockVault(ctx, &v1.LockVaultRequest{})
	return failure(err)
}

// ExportVault writes everything that the vault holds to w, behind a passphrase (signed), and returns how many versions of
// secrets those are. Everyone has it include what is for other people only. After an error w has no export.
func (c *Client) ExportVault(ctx context.Context, passphrase palyra.Secret, everyone bool, w io.Writer) (versions int64, err error) {
	err = passphrase.Use(func(b []byte) error {
		stream, err := c.vault().ExportVault(ctx, &v1.ExportVaultRequest{Passphrase: b, Blind: blind(), Everyone: everyone})
		return receiveAll(stream, err, func(m *v1.ExportVaultResponse) error {
			versions += m.GetVersions()
			_, err := w.Write(m.GetChunk())
			return err
		})
	})
	return versions, err
}

// ImportVault takes an export into the vault, all of it or nothing (signed).
func (c *Client) ImportVault(ctx context.Context, file io.ReaderAt, size int64, passphrase palyra.Secret, mode secrets.ImportMode,
) (secrets.Imported, error) {
	sum := sha256.New()
	if n, err := io.Copy(sum, io.NewSectionReader(file, 0, size)); err != nil || n != size {
		return secrets.Imported{}, failure(cmp.Or(err, io.ErrUnexpectedEOF))
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	part := make([]byte, min(max(size, 1), secrets.MaxPart))
	for at := int64(0); ; {
		n, err := file.ReadAt(part, at)
		if n == 0 && err != nil && size > 0 {
			return secrets.Imported{}, failure(err)
		}
		req := &v1.ImportVaultRequest{Part: part[:n], Offset: at, Size: size, Digest: digest, Mode: string(mode)}
		if at += int64(n); at < size {
			if _, err := c.vault().ImportVault(ctx, req); err != nil {
				return secrets.Imported{}, failure(err)
			}
			continue
		}
		var out secrets.Imported
		err = passphrase.Use(func(b []byte) error {
			req.Passphrase, req.Blind = b, blind()
			res, err := c.vault().ImportVault(ctx, req)
			out, err = word[secrets.Imported](res.GetDone(), err)
			return err
		})
		return out, err
	}
}

// BindSecret says how a secret may be used (signed).
func (c *Client) BindSecret(ctx context.Context, b secrets.Binding) (secrets.Binding, error) {
	req := &v1.BindSecretRequest{Binding: &v1.SecretBinding{
		Name: b.Name, Scope: string(b.Scope), Secret: b.Secret, Kind: string(b.Kind), Place: b.Place, Hosts: b.Hosts, Env: b.Env, User: b.User,
		Workspaces: b.Workspaces, HostKeys: b.HostKeys, Agent: b.Agent, Key: b.Key,
	}}
	for _, t := range b.Tools {
		req.Binding.Tools = append(req.Binding.Tools, string(t))
	}
	res, err := c.vault().BindSecret(ctx, req)
	return word[secrets.Binding](res.GetBinding(), err)
}

// UnbindSecret removes a binding (signed).
func (c *Client) UnbindSecret(ctx context.Context, name string) error {
	_, err := c.vault().UnbindSecret(ctx, &v1.UnbindSecretRequest{Name: name})
	return err
}

// Bindings lists how secrets may be used.
func (c *Client) Bindings(ctx context.Context) ([]secrets.Binding, error) {
	res, err := c.vault().ListBindings(ctx, &v1.ListBindingsRequest{})
	return words[secrets.Binding](res, err, "bindings")
}

// VaultStatus tells how the vault is.
func (c *Client) VaultStatus(ctx context.Context) (secrets.Status, error) {
	res, err := c.vault().GetVaultStatus(ctx, &v1.GetVaultStatusRequest{})
	return word[secrets.Status](res.GetStatus(), err)
}
