package rpctest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"palyra"
	"palyra/secrets"
)

type vaultPart struct{ *Parts }

// Kept is the one secret.
var Kept = secrets.Info{Scope: secrets.Global, Name: "token", Version: 2, CreatedBy: "user:ada", CreatedAt: At}

func (v vaultPart) Put(ctx context.Context, _ secrets.Value, _ secrets.By) (secrets.Info, error) {
	v.note(ctx, "put")
	return Kept, nil
}

func (v vaultPart) Reveal(ctx context.Context, _ secrets.Scope, _ string, _ int64, _ secrets.By) (palyra.Secret, secrets.Info, error) {
	v.note(ctx, "reveal")
	return palyra.NewSecret([]byte("the value of the token")), Kept, nil
}

func (v vaultPart) List(ctx context.Context) ([]secrets.Info, error) {
	v.note(ctx, "secrets")
	return []secrets.Info{Kept}, nil
}

func (v vaultPart) Delete(ctx context.Context, _ secrets.Scope, _ string, _ int64, _ secrets.By) error {
	v.note(ctx, "delete")
	return nil
}

func (v vaultPart) Rotate(ctx context.Context, _ string, _ palyra.Secret, _ secrets.By) error {
	v.note(ctx, "rotate vault")
	return nil
}

func (v vaultPart) Unlock(ctx context.Context, _ palyra.Secret) error {
	v.note(ctx, "unlock")
	return nil
}

func (v vaultPart) Lock() { v.note(context.Background(), "lock") }

func (v vaultPart) Status(ctx context.Context) (secrets.Status, error) {
	v.note(ctx, "vault")
	return secrets.Status{State: secrets.Open, Keeper: "key-file", Keepers: []string{"key-file"}, Counter: 2, Versions: 1}, nil
}

// Bound is the one binding.
var Bound = secrets.Binding{
	Name: "github", Scope: secrets.Global, Secret: "token", Kind: secrets.Header, Place: "Authorization",
	Hosts: []string{"api.example.com:443"}, Env: "GITHUB_TOKEN", CreatedBy: "user:ada", CreatedAt: At,
}

func (v vaultPart) Bind(ctx context.Context, _ secrets.Binding, _ secrets.By) (secrets.Binding, error) {
	v.note(ctx, "bind")
	return Bound, nil
}

func (v vaultPart) Unbind(ctx context.Context, _ string, _ secrets.By) error {
	v.note(ctx, "unbind")
	return nil
}

func (v vaultPart) Bindings(ctx context.Context) ([]secrets.Binding, error) {
	v.note(ctx, "bindings")
	return []secrets.Binding{Bound}, nil
}

// Exported is what an export is made of, so that a test knows it again.
const Exported = "an export of the vault"

func (v vaultPart) Export(ctx context.Context, to io.Writer, _ palyra.Secret, everyone bool, _ secrets.By) (int64, error) {
	v.note(ctx, fmt.Sprintf("export vault %t", everyone))
	_, err := io.WriteString(to, Exported)
	return 2, err
}

func (v vaultPart) Import(ctx context.Context, file io.ReaderAt, size int64, _ palyra.Secret, mode secrets.ImportMode, _ secrets.By,
) (secrets.Imported, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(file, 0, size)); err != nil {
		return secrets.Imported{}, err
	}
	v.note(ctx, fmt.Sprintf("import vault %s%d %x", mode, size, h.Sum(nil)))
	return secrets.Imported{Versions: 2, Added: 1, Keeper: "key-file"}, nil
}
