package rpctest

import (
	"cmp"
	"context"
	"time"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Laptop is the one device.
var Laptop = palyra.Device{
	ID: "dev-0123456789abcdef0123456789abcdef", Name: "laptop", Principal: "user:alice", Role: palyra.RoleApprover, KeyID: "op-1",
	PublicKey: "AAAA", Certificate: "sha256:44", Serial: "01", ExpiresAt: At.Add(720 * time.Hour), PairedAt: At, PairedBy: "user:alice",
	Call: "C1", Address: "192.0.2.7:50000",
}

type devicesPart struct{ *Parts }

// Offer shows a code, has a device come at once, and waits when the role is
// viewer, as an offer does that nobody takes.
func (d devicesPart) Offer(ctx context.Context, o palyra.PairingOffer, emit func(palyra.Pairing) error) error {
	d.note(ctx, "offer "+string(o.Principal)+" "+string(o.Role))
	now := palyra.Pairing{
		ID: "P1", State: palyra.PairingOffered, PIN: "12345678", Code: "palyra-pair:1?a=192.0.2.1:7443", Addresses: []string{"192.0.2.1:7443"},
		ExpiresAt: At.Add(2 * time.Minute), Principal: o.Principal, Role: o.Role,
	}
	if err := emit(now); err != nil {
		return err
	}
	if o.Role == palyra.RoleViewer {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	now.State, now.Name, now.Approval = palyra.PairingProven, Laptop.Name, "A1"
	if err := emit(now); err != nil {
		return err
	}
	now.State, now.Device = palyra.PairingDone, &Laptop
	return emit(now)
}

// Browse pairs a browser at once.
func (d devicesPart) Browse(ctx context.Context, b palyra.BrowserKey, emit func(palyra.Pairing) error) error {
	d.note(ctx, "browse "+b.Name)
	return emit(palyra.Pairing{ID: "P1", State: palyra.PairingDone, ExpiresAt: At, Principal: b.Principal, Device: &Laptop})
}

func (d devicesPart) MayPair(ctx context.Context, p palyra.Principal, role palyra.Role, _ palyra.Signature) (palyra.Principal,
	palyra.Role, error,
) {
	d.note(ctx, "may pair "+string(p))
	if p == "" {
		p = rpc.CallerOf(ctx).Principal
	}
	role = cmp.Or(role, palyra.RoleApprover)
	return p, role, nil
}

func (d devicesPart) Devices(ctx context.Context) ([]palyra.Device, error) {
	d.note(ctx, "devices")
	return []palyra.Device{Laptop}, nil
}

func (d devicesPart) Device(ctx context.Context, idOrName string) (palyra.Device, error) {
	d.note(ctx, "device "+idOrName)
	return Laptop, nil
}

func (d devicesPart) RevokeDevice(ctx context.Context, id string, _ palyra.Signature) (palyra.Device, error) {
	d.note(ctx, "revoke device "+id)
	gone := Laptop
	gone.RevokedAt, gone.RevokedBy = At, rpc.CallerOf(ctx).Principal
	return gone, nil
}

func (d devicesPart) Renew(ctx context.Context, dev palyra.Device) (palyra.Device, []byte, [][]byte, error) {
	d.note(ctx, "renew "+dev.ID)
	return dev, []byte("certificate"), [][]byte{[]byte("authority")}, nil
}

func (d devicesPart) BeginPasskey(ctx context.Context, _ palyra.Principal, _, _ string) (passkey.Request, error) {
	d.note(ctx, "begin passkey")
	return passkey.Request{Challenge: []byte("challenge"), Host: "palyra.localhost", User: []byte("alice")}, nil
}

func (d devicesPart) NewPasskey(passkey.New, string, string) (palyra.Passkey, string, error) {
	return palyra.Passkey{Credential: "Y3JlZA", Origin: "http://palyra.localhost:7142"}, "key", nil
}

func (d devicesPart) Notices(ctx context.Context) (wire.Notices, error) {
	d.note(ctx, "notices")
	told := []wire.NoticeSubscription{{Device: Laptop.ID, Service: "push.example", Since: At}}
	return wire.Notices{PublicKey: []byte("point"), Subscriptions: told}, nil
}

func (d devicesPart) SubscribeNotices(ctx context.Context, dev palyra.Device, _ palyra.Signature, _ string, _, _ []byte) error {
	d.note(ctx, "subscribe "+dev.ID)
	return nil
}

func (d devicesPart) UnsubscribeNotices(ctx context.Context, dev palyra.Device, _ palyra.Signature) error {
	d.note(ctx, "unsubscribe "+dev.ID)
	return nil
}

type console struct{ *Parts }

func (c console) Login(ctx context.Context, who rpc.Caller, _ string) (string, time.Time, error) {
	c.note(ctx, "login "+string(who.Principal))
	return "http://127.0.0.1:7142/login?code=once", At.Add(2 * time.Minute), nil
}
