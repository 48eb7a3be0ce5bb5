package devices

import (
	"context"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// Notices tell browsers that are closed that a question waits.
type Notices interface {
	// Notices says how that is done.
	Notices(ctx context.Context) (wire.Notices, error)
	// SubscribeNotices has a browser told by a push service, as it signed.
	SubscribeNotices(ctx context.Context, d palyra.Device, sig palyra.Signature, endpoint string, key, auth []byte) error
	// UnsubscribeNotices has a browser told no more, as it signed.
	UnsubscribeNotices(ctx context.Context, d palyra.Device, sig palyra.Signature) error
}

// GetNotices implements the method.
func (s *Service) GetNotices(ctx context.Context, _ *v1.GetNoticesRequest) (*v1.GetNoticesResponse, error) {
	n, err := s.notices.Notices(ctx)
	res := &v1.GetNoticesResponse{}
	return wire.Answer(res, res, n, err)
}

// SubscribeNotices implements the method. Which browser it is comes from the key that signed, never from the request.
func (s *Service) SubscribeNotices(ctx context.Context, req *v1.SubscribeNoticesRequest) (*v1.SubscribeNoticesResponse, error) {
	d, sig, err := ownBrowser(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.SubscribeNoticesResponse{}, s.notices.SubscribeNotices(ctx, d, sig, req.GetEndpoint(), req.GetKey(), req.GetAuth())
}

// UnsubscribeNotices implements the method.
func (s *Service) UnsubscribeNotices(ctx context.Context, _ *v1.UnsubscribeNoticesRequest) (*v1.UnsubscribeNoticesResponse, error) {
	d, sig, err := ownBrowser(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.UnsubscribeNoticesResponse{}, s.notices.UnsubscribeNotices(ctx, d, sig)
}

// ownBrowser is the paired browser that signed, and what it signed.
func ownBrowser(ctx context.Context) (palyra.Device, palyra.Signature, error) {
	c := rpc.CallerOf(ctx)
	if !c.Signed || !c.Device.Browser() || c.Device.Passkey != nil {
		return palyra.Device{}, palyra.Signature{}, palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
			"a paired browser subscribes itself, and nobody else does").
			WithRemedy("pair this browser: palyra console pair")
	}
	return c.Device, c.Evidence, nil
}
