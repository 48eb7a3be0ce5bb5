// Package devices serves DeviceService: other machines are paired with the daemon, renewed and parted from. It
// decides nothing: who may pair what is the registry's to say, and whether a device is let in is a person's.
package devices

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/passkey"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// Office shows codes and waits for devices.
type Office interface {
	// Offer shows a code and tells what becomes of it, until it is over. The end of ctx withdraws it.
	Offer(ctx context.Context, o palyra.PairingOffer, emit func(palyra.Pairing) error) error
	// Browse has a browser use the code that is shown for one, and tells what becomes of it.
	Browse(ctx context.Context, b palyra.BrowserKey, emit func(palyra.Pairing) error) error
}

// Registry keeps the devices.
type Registry interface {
	// MayPair checks that a signer may pair a device for a person with a role;
	// empty ones mean the signer and the usual role, which it returns.
	MayPair(ctx context.Context, p palyra.Principal, role palyra.Role, sig palyra.Signature) (palyra.Principal, palyra.Role, error)
	// Devices lists every device ever paired.
	Devices(ctx context.Context) ([]palyra.Device, error)
	// Device returns one by its id or name.
	Device(ctx context.Context, idOrName string) (palyra.Device, error)
	// RevokeDevice ends one.
	RevokeDevice(ctx context.Context, id string, sig palyra.Signature) (palyra.Device, error)
}

// Renewer makes a device's next certificate.
type Renewer interface {
	// Renew returns the device, its certificate and the authorities to trust.
	Renew(ctx context.Context, d palyra.Device) (palyra.Device, []byte, [][]byte, error)
}

// Passkeys are made by authenticators, at pages of the console.
type Passkeys interface {
	// BeginPasskey returns what an authenticator is asked with, for a session's person at a console.
	BeginPasskey(ctx context.Context, p palyra.Principal, session, console string) (passkey.Request, error)
	// NewPasskey returns the passkey that was made for that, with its key.
	NewPasskey(made passkey.New, session, console string) (palyra.Passkey, string, error)
}

// Service serves DeviceService.
type Service struct {
	office   Office
	registry Registry
	renewer  Renewer
	passkeys Passkeys
	notices  Notices
}

// New returns the service.
func New(o Office, r Registry, n Renewer, p Passkeys, t Notices) *Service {
	return &Service{o, r, n, p, t}
}

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewDeviceServiceHandler(s, opts...)
}

// PairDevice implements the method.
func (s *Service) PairDevice(ctx context.Context, req *v1.PairDeviceRequest, stream *connect.ServerStream[v1.PairDeviceResponse]) error {
	return s.pair(ctx, req, stream.Send)
}

// pair tells the code in the first message and in no other, whatever the office puts there.
func (s *Service) pair(ctx context.Context, req *v1.PairDeviceRequest, send func(*v1.PairDeviceResponse) error) error {
	c := rpc.CallerOf(ctx)
	if !c.Signed {
		return palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired, "a pairing must be signed with an operator key").
			WithRemedy("use the palyra client with an operator key")
	}
	p, role, err := s.registry.MayPair(ctx, palyra.Principal(req.GetPrincipal()), palyra.Role(req.GetRole()), c.Evidence)
	if err != nil {
		return err
	}
	first := true
	offer := palyra.PairingOffer{Principal: p, Role: role, Browser: req.GetBrowser(), By: c.Principal, Signature: c.Evidence}
	return s.office.Offer(ctx, offer,
		func(now palyra.Pairing) error {
			if !first {
				now.PIN, now.Code = "", ""
			}
			first = false
			res := &v1.PairDeviceResponse{Pairing: &v1.Pairing{}}
			if err := wire.FromWord(now, res.GetPairing()); err != nil {
				return err
			}
			return send(res)
		})
}

// JoinBrowser implements the method.
func (s *Service) JoinBrowser(ctx context.Context, req *v1.JoinBrowserRequest,
	stream *connect.ServerStream[v1.JoinBrowserResponse],
) error {
	return s.join(ctx, req, stream.Send)
}

// join serves pages of the console alone: whose browser it is comes from its session, never from the request.
func (s *Service) join(ctx context.Context, req *v1.JoinBrowserRequest, send func(*v1.JoinBrowserResponse) error) error {
	c := rpc.CallerOf(ctx)
	if c.Credential != rpc.ByConsole {
		return notConsole()
	}
	b := palyra.BrowserKey{
		Name: req.GetName(), PublicKey: req.GetPublicKey(), Principal: c.Principal, Code: palyra.NewSecret([]byte(req.GetCode())),
		Console: c.Console,
	}
	defer b.Code.Destroy()
	if made := req.GetPasskey(); made != nil {
		p, key, err := s.passkeys.NewPasskey(passkey.New{
			Credential: made.GetCredentialId(), Attestation: made.GetAttestationObject(), ClientData: made.GetClientDataJson(),
		}, c.CredentialID, c.Console)
		if err != nil {
			return err
		}
		b.Passkey, b.PublicKey = &p, key
	}
	return s.office.Browse(ctx, b, func(now palyra.Pairing) error {
		if now.State == palyra.PairingDone && now.Device != nil && now.Device.Passkey == nil {
			rpc.Paired(ctx, *now.Device)
		}
		now.PIN, now.Code = "", ""
		res := &v1.JoinBrowserResponse{Pairing: &v1.Pairing{}}
		if err := wire.FromWord(now, res.GetPairing()); err != nil {
			return err
		}
		return send(res)
	})
}

// BeginPasskey implements the method.
func (s *Service) BeginPasskey(ctx context.Context, _ *v1.BeginPasskeyRequest) (*v1.BeginPasskeyResponse, error) {
	c := rpc.CallerOf(ctx)
	if c.Credential != rpc.ByConsole {
		return nil, notConsole()
	}
	ask, err := s.passkeys.BeginPasskey(ctx, c.Principal, c.CredentialID, c.Console)
	return &v1.BeginPasskeyResponse{
		Challenge: ask.Challenge, RpId: ask.Host, UserId: ask.User, UserName: string(c.Principal), Exclude: ask.Exclude,
	}, err
}

// notConsole is the refusal of what only pages of the console may ask for.
func notConsole() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "only a browser that is signed in to the console is paired like this").
		WithRemedy("open the console: palyra console pair")
}

// ListDevices implements the method.
func (s *Service) ListDevices(ctx context.Context, _ *v1.ListDevicesRequest) (*v1.ListDevicesResponse, error) {
	all, err := s.registry.Devices(ctx)
	res := &v1.ListDevicesResponse{}
	return wire.Answer(res, res, map[string]any{"devices": all}, err)
}

// GetDevice implements the method.
func (s *Service) GetDevice(ctx context.Context, req *v1.GetDeviceRequest) (*v1.GetDeviceResponse, error) {
	d, err := s.registry.Device(ctx, req.GetDevice())
	res := &v1.GetDeviceResponse{Device: &v1.Device{}}
	return wire.Answer(res, res.GetDevice(), d, err)
}

// RevokeDevice implements the method.
func (s *Service) RevokeDevice(ctx context.Context, req *v1.RevokeDeviceRequest) (*v1.RevokeDeviceResponse, error) {
	d, err := s.registry.RevokeDevice(ctx, req.GetDeviceId(), rpc.CallerOf(ctx).Evidence)
	res := &v1.RevokeDeviceResponse{Device: &v1.Device{}}
	return wire.Answer(res, res.GetDevice(), d, err)
}

// RenewDevice implements the method. Which device it is comes from the key that
// the connection proves, never from the request.
func (s *Service) RenewDevice(ctx context.Context, _ *v1.RenewDeviceRequest) (*v1.RenewDeviceResponse, error) {
	c := rpc.CallerOf(ctx)
	if c.Credential != rpc.ByDevice || c.Device.ID == "" || c.Device.Browser() {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRequired, "only a device renews its certificate, over its own connection").
			WithRemedy("run it on the device, with --remote")
	}
	d, cert, authorities, err := s.renewer.Renew(ctx, c.Device)
	res := &v1.RenewDeviceResponse{Device: &v1.Device{}, Certificate: cert, Authorities: authorities}
	return wire.Answer(res, res.GetDevice(), d, err)
}
