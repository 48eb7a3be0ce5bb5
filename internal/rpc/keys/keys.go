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
	// Where is in which places the private halves are.
	Where(ctx context.Context) []wire.KeyPlace
	// Move moves those that can be moved to the vault or to files, and returns where they are then.
	Move(ctx context.Context, to string, by palyra.Principal, sig palyra.Signature) ([]wire.KeyPlace, error)
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
func (s *Service) ListKeys(ctx context.Context, _ *v1.ListKeysRequest) (*v1.ListKeysResponse, error) {
	res := &v1.ListKeysResponse{}
	return res, wire.FromWord(map[string]any{"keys": s.ring.List(), "places": s.ring.Where(ctx)}, res)
}

// MoveKeys implements the method.
func (s *Service) MoveKeys(ctx context.Context, req *v1.MoveKeysRequest) (*v1.MoveKeysResponse, error) {
	who := rpc.CallerOf(ctx)
	places, err := s.ring.Move(ctx, req.GetTo(), who.Principal, who.Evidence)
	res := &v1.MoveKeysResponse{}
	return wire.Answer(res, res, map[string]any{"places": places}, err)
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
