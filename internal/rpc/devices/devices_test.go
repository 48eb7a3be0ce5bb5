package devices

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

var phone = palyra.Device{
	ID: "dev-1", Name: "phone", Principal: "user:alice", Role: palyra.RoleApprover, Certificate: "sha256:44",
	PairedAt: time.Unix(1_800_000_000, 0).UTC(),
}

// parts is everything behind the service.
type parts struct {
	offer   palyra.PairingOffer
	browser palyra.BrowserKey
	asked   []string
	sig     palyra.Signature
	fail    error
}

func (p *parts) Offer(_ context.Context, o palyra.PairingOffer, emit func(palyra.Pairing) error) error {
	p.offer = o
	for _, s := range []palyra.PairingState{palyra.PairingOffered, palyra.PairingProven, palyra.PairingDone} {
		// A careless office that tells the code every time.
		if err := emit(palyra.Pairing{ID: "P1", State: s, PIN: "12345678", Code: "code", Device: &phone}); err != nil {
			return err
		}
	}
	return p.fail
}

func (p *parts) Browse(_ context.Context, b palyra.BrowserKey, emit func(palyra.Pairing) error) error {
	p.browser = b
	_ = b.Code.Use(func(code []byte) error { p.asked = append(p.asked, "browse "+string(code)); return nil })
	for _, s := range []palyra.PairingState{palyra.PairingProven, palyra.PairingDone} {
		if err := emit(palyra.Pairing{ID: "P1", State: s, PIN: "12345678", Code: "code", Device: &phone}); err != nil {
			return err
		}
	}
	return p.fail
}

func (p *parts) MayPair(_ context.Context, who palyra.Principal, role palyra.Role, sig palyra.Signature) (palyra.Principal, palyra.Role,
	error,
) {
	p.asked, p.sig = append(p.asked, "pair "+string(who)+" "+string(role)), sig
	return "user:alice", palyra.RoleApprover, p.fail
}

func (p *parts) Devices(context.Context) ([]palyra.Device, error) {
	return []palyra.Device{phone}, p.fail
}

func (p *parts) Device(_ context.Context, name string) (palyra.Device, error) {
	p.asked = append(p.asked, "get "+name)
	return phone, p.fail
}

func (p *parts) RevokeDevice(_ context.Context, id string, sig palyra.Signature) (palyra.Device, error) {
	p.asked, p.sig = append(p.asked, "revoke "+id), sig
	return phone, p.fail
}

func (p *parts) Renew(_ context.Context, d palyra.Device) (palyra.Device, []byte, [][]byte, error) {
	p.asked = append(p.asked, "renew "+d.ID)
	return d, []byte("cert"), [][]byte{[]byte("new"), []byte("old")}, p.fail
}

func (p *parts) BeginPasskey(_ context.Context, who palyra.Principal, session, console string) (passkey.Request, error) {
	p.asked = append(p.asked, "passkey of "+string(who)+" in "+session+" at "+console)
	return passkey.Request{Challenge: []byte("challenge"), Host: "palyra.localhost"}, p.fail
}

func (p *parts) NewPasskey(made passkey.New, session, console string) (palyra.Passkey, string, error) {
	p.asked = append(p.asked, "new passkey "+string(made.Credential)+" in "+session+" at "+console)
	return palyra.Passkey{Credential: "Y3JlZA", Origin: console}, "its key", p.fail
}

func (p *parts) Notices(context.Context) (wire.Notices, error) {
	return wire.Notices{PublicKey: []byte("point")}, p.fail
}

func (p *parts) SubscribeNotices(_ context.Context, d palyra.Device, sig palyra.Signature, endpoint string, key, auth []byte) error {
	p.asked = append(p.asked, "subscribe "+d.ID+" "+endpoint+" "+string(key)+" "+string(auth)+" "+sig.Intent.KeyID)
	return p.fail
}

func (p *parts) UnsubscribeNotices(_ context.Context, d palyra.Device, sig palyra.Signature) error {
	p.asked = append(p.asked, "unsubscribe "+d.ID+" "+sig.Intent.KeyID)
	return p.fail
}

var alice = rpc.Caller{Principal: "user:alice", Signed: true, Evidence: palyra.Signature{Intent: palyra.Intent{KeyID: "op-a"}}}

func TestCodeIsInTheFirstMessageOnly(t *testing.T) {
	p := &parts{}
	s := New(p, p, p, p, p)
	var got []*v1.Pairing
	err := s.pair(rpc.WithCaller(t.Context(), alice), &v1.PairDeviceRequest{Principal: "user:x", Role: "viewer"},
		func(r *v1.PairDeviceResponse) error {
			got = append(got, r.GetPairing())
			return nil
		})
	if err != nil || len(got) != 3 || got[0].GetPin() != "12345678" || got[0].GetCode() != "code" {
		t.Fatalf("%v %v", got, err)
	}
	for _, later := range got[1:] {
		if later.GetPin() != "" || later.GetCode() != "" || later.GetDevice().GetDeviceId() != "dev-1" {
			t.Errorf("%v", later)
		}
	}
	// What the registry said counts, not what was asked for.
	want := palyra.PairingOffer{Principal: "user:alice", Role: palyra.RoleApprover, By: "user:alice"}
	if p.offer.Principal != want.Principal || p.offer.Role != want.Role || p.offer.By != want.By || p.offer.Signature.Intent.KeyID != "op-a" ||
		!slices.Equal(p.asked, []string{"pair user:x viewer"}) || p.sig.Intent.KeyID != "op-a" {
		t.Errorf("%+v", p)
	}
}

func TestPairingEndsWithItsStream(t *testing.T) {
	p := &parts{}
	gone := errors.New("gone")
	err := New(p, p, p, p, p).pair(rpc.WithCaller(t.Context(), alice), nil, func(*v1.PairDeviceResponse) error { return gone })
	if !errors.Is(err, gone) {
		t.Error(err)
	}
}

// Even a chain that let it through by mistake must not show a code.
func TestUnsignedPairingIsImpossible(t *testing.T) {
	s := New(nil, nil, nil, nil, nil) // nothing must be reached
	for _, c := range []rpc.Caller{{}, {Principal: "user:alice", Role: palyra.RoleOwner}} {
		err := s.pair(rpc.WithCaller(t.Context(), c), nil, nil)
		if palyra.AsError(err).Reason != palyra.ReasonSignatureRequired {
			t.Errorf("%+v: %v", c, err)
		}
	}
	p := &parts{fail: palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "no")}
	if err := New(p, p, p, p, p).pair(rpc.WithCaller(t.Context(), alice), nil, nil); palyra.AsError(err).Reason != palyra.ReasonPermission ||
		p.offer.By != "" {
		t.Errorf("an offer that nobody may make: %v", err)
	}
}

func TestDevices(t *testing.T) {
	p := &parts{}
	s := New(p, p, p, p, p)
	ctx := rpc.WithCaller(t.Context(), alice)
	if all, err := s.ListDevices(ctx, nil); err != nil || len(all.GetDevices()) != 1 || all.GetDevices()[0].GetName() != "phone" {
		t.Errorf("%v %v", all, err)
	}
	if one, err := s.GetDevice(ctx, &v1.GetDeviceRequest{Device: "phone"}); err != nil ||
		!one.GetDevice().GetPairedAt().AsTime().Equal(phone.PairedAt) {
		t.Errorf("%v %v", one, err)
	}
	if gone, err := s.RevokeDevice(ctx, &v1.RevokeDeviceRequest{DeviceId: "dev-1"}); err != nil ||
		gone.GetDevice().GetDeviceId() != "dev-1" || p.sig.Intent.KeyID != "op-a" {
		t.Errorf("%v %v", gone, err)
	}
	if !slices.Equal(p.asked, []string{"get phone", "revoke dev-1"}) {
		t.Errorf("%v", p.asked)
	}
}

func TestOnlyTheDeviceRenews(t *testing.T) {
	p := &parts{}
	s := New(p, p, p, p, p)
	renew := func(c rpc.Caller) (*v1.RenewDeviceResponse, error) {
		return s.RenewDevice(rpc.WithCaller(t.Context(), c), nil)
	}
	for _, c := range []rpc.Caller{
		{},
		alice,
		{Principal: "user:alice", Credential: rpc.ByDevice},
		{Principal: "user:alice", Credential: rpc.ByToken, Device: phone}, // a token on the device's connection is not the device
	} {
		if _, err := renew(c); palyra.AsError(err).Reason != palyra.ReasonDeviceRequired || len(p.asked) > 0 {
			t.Errorf("%+v: %v", c, err)
		}
	}
	res, err := renew(rpc.Caller{Principal: "user:alice", Credential: rpc.ByDevice, Device: phone})
	if err != nil || string(res.GetCertificate()) != "cert" || len(res.GetAuthorities()) != 2 || res.GetDevice().GetDeviceId() != "dev-1" {
		t.Errorf("%v %v", res, err)
	}
}

func TestErrorsComeThrough(t *testing.T) {
	broken := errors.New("broken")
	p := &parts{fail: broken}
	s := New(p, p, p, p, p)
	ctx := rpc.WithCaller(t.Context(), rpc.Caller{Credential: rpc.ByDevice, Device: phone})
	for name, call := range map[string]func() error{
		"list":   func() error { _, err := s.ListDevices(ctx, nil); return err },
		"get":    func() error { _, err := s.GetDevice(ctx, nil); return err },
		"revoke": func() error { _, err := s.RevokeDevice(ctx, nil); return err },
		"renew":  func() error { _, err := s.RenewDevice(ctx, nil); return err },
	} {
		if err := call(); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A browser is its session's person's, whatever it says, and hears no code. Nobody joins from anywhere else.
func TestJoinBrowser(t *testing.T) {
	p := &parts{}
	s := New(p, p, p, p, p)
	req := &v1.JoinBrowserRequest{Name: "chromium", PublicKey: "AAAA", Code: "12345678"}
	var seen []*v1.Pairing
	send := func(m *v1.JoinBrowserResponse) error {
		seen = append(seen, m.GetPairing())
		return nil
	}
	for _, by := range []string{rpc.ByOperatorSocket, rpc.ByDevice, rpc.ByToken, rpc.ByAgentSocket, ""} {
		ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "user:alice", Credential: by})
		if err := s.join(ctx, req, send); palyra.AsError(err).Reason != palyra.ReasonPermission {
			t.Errorf("by %q: %v", by, err)
		}
	}
	ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "user:alice", Credential: rpc.ByConsole, Console: "c:1"})
	if err := s.join(ctx, req, send); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || p.browser.Principal != "user:alice" || p.browser.Name != "chromium" || p.browser.Console != "c:1" ||
		!slices.Equal(p.asked, []string{"browse 12345678"}) {
		t.Errorf("%v %+v %v", seen, p.browser, p.asked)
	}
	for _, now := range seen {
		if now.GetPin() != "" || now.GetCode() != "" {
			t.Errorf("the page hears the code: %v", now)
		}
	}
}

// Whose browser is told comes from the key that signed: a machine, a passkey and a cookie alone subscribe nothing.
func TestABrowserSubscribesItself(t *testing.T) {
	own := palyra.Device{ID: "dev-9", Name: "chromium", Principal: "user:alice"}
	sig := palyra.Signature{Intent: palyra.Intent{KeyID: "op-9"}}
	for name, c := range map[string]struct {
		rpc.Caller
		may bool
	}{
		"a browser":         {rpc.Caller{Principal: "user:alice", Signed: true, Device: own, Evidence: sig}, true},
		"its cookie":        {rpc.Caller{Principal: "user:alice", Device: own}, false},
		"an operator":       {alice, false},
		"a machine":         {rpc.Caller{Principal: "user:alice", Signed: true, Device: phone}, false},
		"a passkey":         {rpc.Caller{Signed: true, Device: palyra.Device{ID: "dev-8", Passkey: &palyra.Passkey{}}}, false},
		"nobody in special": {rpc.Caller{}, false},
	} {
		p := &parts{}
		s := New(p, p, p, p, p)
		ctx := rpc.WithCaller(t.Context(), c.Caller)
		_, err := s.SubscribeNotices(ctx, &v1.SubscribeNoticesRequest{Endpoint: "https://push.example/x", Key: []byte("k"), Auth: []byte("a")})
		_, off := s.UnsubscribeNotices(ctx, &v1.UnsubscribeNoticesRequest{})
		if (err == nil) != c.may || (off == nil) != c.may {
			t.Errorf("%s: %v %v", name, err, off)
		}
		if want := []string{"subscribe dev-9 https://push.example/x k a op-9", "unsubscribe dev-9 op-9"}; c.may != slices.Equal(p.asked, want) {
			t.Errorf("%s: %q", name, p.asked)
		}
	}
}
