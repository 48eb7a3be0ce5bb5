// Package keys serves KeyService: the public halves of the daemon's signing keys, and their rotation.
package keys

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Ring holds the daemon's keys.
type Ring interface {
	// List returns every key, retired ones too.
	List() []palyra.Key
	// Export returns the document that verifiers trust.
	Export() ([]byte, error)
	// Rotate replaces the key of a use.
	Rotate(ctx context.Context, use palyra.KeyUse, by palyra.Principal) (palyra.Key, error)
}

// Service serves KeyService.
type Service struct{ ring Ring }

// New returns the service.
func New(r Ring) *Service { return &Service{r} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewKeyServiceHandler(s, opts...)
}

// ListKeys implements the method.
func (s *Service) ListKeys(context.Context, *v1.ListKeysRequest) (*v1.ListKeysResponse, error) {
	res := &v1.ListKeysResponse{}
	return res, wire.FromWord(map[string]any{"keys": s.ring.List()}, res)
}

// ExportKeys implements the method.
func (s *Service) ExportKeys(context.Context, *v1.ExportKeysRequest) (*v1.ExportKeysResponse, error) {
	doc, err := s.ring.Export()
	return &v1.ExportKeysResponse{Document: doc}, err
}

// RotateKey implements the method.
func (s *Service) RotateKey(ctx context.Context, req *v1.RotateKeyRequest) (*v1.RotateKeyResponse, error) {
	k, err := s.ring.Rotate(ctx, palyra.KeyUse(req.GetUse()), rpc.CallerOf(ctx).Principal)
	res := &v1.RotateKeyResponse{Key: &v1.Key{}}
	return wire.Answer(res, res.GetKey(), k, err)
}
