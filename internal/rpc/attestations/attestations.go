// Package attestations serves AttestationService: what the daemon signed about
// a call, for whoever wants to check it elsewhere.
package attestations

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc/wire"
)

// Attestations keeps what was signed.
type Attestations interface {
	// Get returns the attestation with that id, of the call with that id, or with that digest.
	Get(ctx context.Context, name string) (palyra.Attestation, error)
}

// Service serves AttestationService.
type Service struct{ attestations Attestations }

// New returns the service.
func New(a Attestations) *Service { return &Service{a} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewAttestationServiceHandler(s, opts...)
}

// GetAttestation implements the method.
func (s *Service) GetAttestation(ctx context.Context, req *v1.GetAttestationRequest) (*v1.GetAttestationResponse, error) {
	var name string
	for _, n := range []string{req.GetAttestationId(), req.GetCallId(), req.GetDigest()} {
		if n != "" && name != "" {
			name = ""
			break
		}
		name += n
	}
	if name == "" {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "name one attestation: by its id, its call or its digest")
	}
	a, err := s.attestations.Get(ctx, name)
	res := &v1.GetAttestationResponse{Attestation: &v1.Attestation{}}
	return wire.Answer(res, res.GetAttestation(), a, err)
}
