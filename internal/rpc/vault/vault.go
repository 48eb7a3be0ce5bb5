// Package vault serves VaultService: the secrets that people keep for agents to use.
package vault

import (
	"context"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
	"palyra/secrets"
)

// minBlind is how many random bytes a request with a secret in it has at least.
const minBlind = 16

// Secrets keeps values.
type Secrets interface {
	// Put keeps a value as the next version of a secret.
	Put(ctx context.Context, in secrets.Value, by secrets.By) (secrets.Info, error)
	// Reveal returns a value to a person, once that is on record; version 0: the last.
	Reveal(ctx context.Context, scope secrets.Scope, name string, version int64, by secrets.By) (palyra.Secret, secrets.Info, error)
	// List returns what may be told of every version.
	List(ctx context.Context) ([]secrets.Info, error)
	// Delete removes a secret; version 0: with all its versions.
	Delete(ctx context.Context, scope secrets.Scope, name string, version int64, by secrets.By) error
}

// Keys keeps the key of the vault.
type Keys interface {
	// Rotate puts the vault under a new key; no keeper: of the same one.
	Rotate(ctx context.Context, keeper string, passphrase palyra.Secret, by secrets.By) error
	// Unlock opens the vault with a passphrase.
	Unlock(ctx context.Context, passphrase palyra.Secret) error
	// Lock forgets the key.
	Lock()
	// Status tells how the vault is.
	Status(ctx context.Context) (secrets.Status, error)
}

// Bindings keeps how secrets may be used.
type Bindings interface {
	// Bind keeps a binding, in the place of one with its name.
	Bind(ctx context.Context, b secrets.Binding, by secrets.By) (secrets.Binding, error)
	// Unbind removes a binding.
	Unbind(ctx context.Context, name string, by secrets.By) error
	// Bindings lists them.
	Bindings(ctx context.Context) ([]secrets.Binding, error)
}

// Backup gives everything that the vault holds away, and takes it in again.
type Backup interface {
	// Export writes the vault behind a passphrase. What it wrote may be given away once it has returned without an error.
	Export(ctx context.Context, to io.Writer, passphrase palyra.Secret, everyone bool, by secrets.By) (versions int64, err error)
	// Import takes an export into the vault, all of it or nothing.
	Import(ctx context.Context, file io.ReaderAt, size int64, passphrase palyra.Secret, mode secrets.ImportMode, by secrets.By,
	) (secrets.Imported, error)
}

// Vault is all of it.
type Vault interface {
	Secrets
	Keys
	Bindings
	Backup
}

// Service serves VaultService.
type Service struct {
	vault   Vault
	lesser  func(a, b palyra.Role) palyra.Role
	dir     string
	uploads uploads
}

// New returns the service. Lesser is the weaker of two roles; exports on their way are in dir, encrypted as they are.
func New(v Vault, lesser func(a, b palyra.Role) palyra.Role, dir string) *Service {
	return &Service{vault: v, lesser: lesser, dir: dir}
}

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewVaultServiceHandler(s, opts...)
}

// callerOf is who calls, as what.
func (s *Service) callerOf(ctx context.Context) secrets.By {
	who := rpc.CallerOf(ctx)
	return secrets.By{Principal: who.Principal, Role: s.lesser(who.Role, who.Cap), Signature: who.Evidence}
}

// blinded refuses a request whose signed digest would tell what is secret in it.
func blinded(secret, blind []byte) error {
	if len(secret) > 0 && len(blind) < minBlind {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the request has fewer than %d random bytes in blind", minBlind).
			WithRemedy("send random ones: the digest of the request is on record, and would tell a short value")
	}
	return nil
}

// PutSecret implements the method.
func (s *Service) PutSecret(ctx context.Context, req *v1.PutSecretRequest) (*v1.PutSecretResponse, error) {
	if err := blinded(req.GetValue(), req.GetBlind()); err != nil {
		return nil, err
	}
	in := secrets.Value{
		Scope: secrets.Scope(req.GetScope()), Name: req.GetName(), Value: palyra.NewSecret(req.GetValue()),
		Expires: moment(req.GetExpiresAt()), Unmasked: req.GetUnmasked(), First: req.GetFirst(),
	}
	defer in.Value.Destroy()
	info, err := s.vault.Put(ctx, in, s.callerOf(ctx))
	res := &v1.PutSecretResponse{Secret: &v1.SecretInfo{}}
	return wire.Answer(res, res.GetSecret(), info, err)
}

func moment(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// RevealSecret implements the method.
func (s *Service) RevealSecret(ctx context.Context, req *v1.RevealSecretRequest) (*v1.RevealSecretResponse, error) {
	value, info, err := s.vault.Reveal(ctx, secrets.Scope(req.GetScope()), req.GetName(), req.GetVersion(), s.callerOf(ctx))
	if err != nil {
		return nil, err
	}
	defer value.Destroy()
	res := &v1.RevealSecretResponse{Secret: &v1.SecretInfo{}}
	err = value.Use(func(b []byte) error {
		res.Value = append([]byte(nil), b...)
		return nil
	})
	return wire.Answer(res, res.GetSecret(), info, err)
}

// ListSecrets implements the method.
func (s *Service) ListSecrets(ctx context.Context, _ *v1.ListSecretsRequest) (*v1.ListSecretsResponse, error) {
	all, err := s.vault.List(ctx)
	res := &v1.ListSecretsResponse{}
	return wire.Answer(res, res, map[string]any{"secrets": all}, err)
}

// DeleteSecret implements the method.
func (s *Service) DeleteSecret(ctx context.Context, req *v1.DeleteSecretRequest) (*v1.DeleteSecretResponse, error) {
	return &v1.DeleteSecretResponse{}, s.vault.Delete(ctx, secrets.Scope(req.GetScope()), req.GetName(), req.GetVersion(), s.callerOf(ctx))
}

// RotateVault implements the method.
func (s *Service) RotateVault(ctx context.Context, req *v1.RotateVaultRequest) (*v1.RotateVaultResponse, error) {
	if err := blinded(req.GetPassphrase(), req.GetBlind()); err != nil {
		return nil, err
	}
	passphrase := palyra.NewSecret(req.GetPassphrase())
	defer passphrase.Destroy()
	return &v1.RotateVaultResponse{}, s.vault.Rotate(ctx, req.GetKeeper(), passphrase, s.callerOf(ctx))
}

// UnlockVault implements the method.
func (s *Service) UnlockVault(ctx context.Context, req *v1.UnlockVaultRequest) (*v1.UnlockVaultResponse, error) {
	if err := blinded(req.GetPassphrase(), req.GetBlind()); err != nil {
		return nil, err
	}
	passphrase := palyra.NewSecret(req.GetPassphrase())
	defer passphrase.Destroy()
	return &v1.UnlockVaultResponse{}, s.vault.Unlock(ctx, passphrase)
}

// LockVault implements the method.
func (s *Service) LockVault(context.Context, *v1.LockVaultRequest) (*v1.LockVaultResponse, error) {
	s.vault.Lock()
	return &v1.LockVaultResponse{}, nil
}

// BindSecret implements the method.
func (s *Service) BindSecret(ctx context.Context, req *v1.BindSecretRequest) (*v1.BindSecretResponse, error) {
	var b secrets.Binding
	err := wire.ToWord(req.GetBinding(), &b)
	if err == nil {
		b, err = s.vault.Bind(ctx, b, s.callerOf(ctx))
	}
	res := &v1.BindSecretResponse{Binding: &v1.SecretBinding{}}
	return wire.Answer(res, res.GetBinding(), b, err)
}

// UnbindSecret implements the method.
func (s *Service) UnbindSecret(ctx context.Context, req *v1.UnbindSecretRequest) (*v1.UnbindSecretResponse, error) {
	return &v1.UnbindSecretResponse{}, s.vault.Unbind(ctx, req.GetName(), s.callerOf(ctx))
}

// ListBindings implements the method.
func (s *Service) ListBindings(ctx context.Context, _ *v1.ListBindingsRequest) (*v1.ListBindingsResponse, error) {
	all, err := s.vault.Bindings(ctx)
	res := &v1.ListBindingsResponse{}
	return wire.Answer(res, res, map[string]any{"bindings": all}, err)
}

// GetVaultStatus implements the method.
func (s *Service) GetVaultStatus(ctx context.Context, _ *v1.GetVaultStatusRequest) (*v1.GetVaultStatusResponse, error) {
	st, err := s.vault.Status(ctx)
	res := &v1.GetVaultStatusResponse{Status: &v1.VaultStatus{}}
	return wire.Answer(res, res.GetStatus(), st, err)
}
