package enrol

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"sync/atomic"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/identity"
	"palyra/internal/pairing"
	"palyra/internal/tool/device"
)

// Tool is the tool by which devices are paired.
func (v *Devices) Tool() device.Config {
	return device.Config{KeyID: identity.KeyID, Register: v.register}
}

// register makes a device known that a person said yes to. Its certificate waits for the office, which hands it
// over; without a machine that waits for it nothing is made known, however old the question is that was answered.
func (v *Devices) register(ctx context.Context, call palyra.CallID, p device.Pairing) (palyra.Device, error) {
	if !v.waits(p) {
		return palyra.Device{}, palyra.Errorf(palyra.Expired, palyra.ReasonPairingExpired, "the machine that asked is not waiting any more").
			WithRemedy("pair it again: palyra device pair")
	}
	pub, err := p.Key()
	if err != nil {
		return palyra.Device{}, err
	}
	dev := palyra.Device{
		ID: access.DeviceID(ed25519.PublicKey(pub)), Name: p.Name, Principal: p.Principal, Role: p.Role, KeyID: p.KeyID,
		PublicKey: p.PublicKey, PairedAt: v.Now().UTC(), PairedBy: p.By, Call: call, Address: p.Address,
		Passkey: p.Passkey,
	}
	leaf, err := v.certify(&dev, pub, p.Browser)
	if err != nil {
		return palyra.Device{}, err
	}
	dev, err = v.Access.AddDevice(ctx, dev, p.Pairing)
	if err != nil {
		return palyra.Device{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.issued[call] = pairing.Issued{Device: dev, Certificate: leaf, Authorities: v.Authority.Certificates()}
	return dev, nil
}

// certify gives a device its certificate and returns it. A browser gets none: its key counts at the console, for as
// long as a certificate would.
func (v *Devices) certify(d *palyra.Device, key ed25519.PublicKey, browser bool) ([]byte, error) {
	if browser {
		d.ExpiresAt = v.Now().UTC().AddDate(0, 0, int(v.Settings.Remote.CertificateDays))
		return nil, nil
	}
	leaf, err := v.Authority.IssueDevice(key, d.ID)
	if err != nil {
		return nil, err
	}
	d.Certificate, d.Serial, d.ExpiresAt = leaf.Digest, leaf.Serial, leaf.NotAfter.UTC()
	return leaf.DER, nil
}

// Ask puts a machine that proved the code to the gate, as a call of its own:
// judged, asked, answered, recorded and attested like any other.
func (v *Devices) Ask(ctx context.Context, c pairing.Candidate, asked func(palyra.ApprovalID)) (pairing.Issued, error) {
	if _, err := v.Access.Device(ctx, c.Name); err == nil { // better now than after a person said yes
		return pairing.Issued{}, palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "a device is or was called %s", c.Name).
			WithRemedy("join again with another --name; that of a revoked device is not given again")
	}
	args, err := json.Marshal(device.Pairing{
		Pairing: c.Pairing, Name: c.Name, PublicKey: c.PublicKey, KeyID: c.KeyID, Print: c.Fingerprint, Address: c.Address,
		Principal: c.Principal, Role: c.Role, By: c.By, Browser: c.Browser, Passkey: c.Passkey,
	})
	if err != nil {
		return pairing.Issued{}, err
	}
	v.wait(c, true)
	defer v.wait(c, false)
	calls := v.Calls
	var id atomic.Value
	out, err := calls.Call(ctx, palyra.Proposal{
		Proposer: palyra.Proposer{
			Principal: palyra.Principal("device:" + c.KeyID), Owner: c.Principal, PeerUID: -1, Surface: palyra.SurfaceAPI,
			Purpose: "pairing " + string(c.Pairing),
		},
		Tool: device.PairName, Arguments: args,
	}, palyra.Watch{Event: func(call *palyra.Call, e palyra.Event) {
		id.Store(call.ID)
		switch e := e.(type) {
		case palyra.ApprovalRequested:
			asked(e.Approval)
		case palyra.ApprovalJoined:
			asked(e.Approval)
		}
	}})
	call, known := id.Load().(palyra.CallID)
	if known && ctx.Err() != nil {
		_ = calls.Cancel(context.WithoutCancel(ctx), call) // it may have ended: then the answer is there
	}
	if issued, ok := v.take(call); ok {
		return issued, nil
	}
	switch {
	case err != nil:
		return pairing.Issued{}, err
	case out.ReasonCode == palyra.ReasonApprovalDenied:
		return pairing.Issued{}, palyra.Errorf(palyra.Denied, palyra.ReasonPairingRefused, "the pairing was refused: %s", out.Reason)
	}
	return pairing.Issued{}, palyra.Errorf(palyra.Denied, out.ReasonCode, "%s", out.Reason).WithRemedy("%s", out.Remedy)
}

// wait notes that a machine waits for the answer, or no longer does.
func (v *Devices) wait(c pairing.Candidate, does bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if delete(v.waiting, c.Pairing); does {
		v.waiting[c.Pairing] = c.PublicKey
	}
}

func (v *Devices) waits(p device.Pairing) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	key, ok := v.waiting[p.Pairing]
	return ok && key == p.PublicKey
}

// take returns what a call issued, once.
func (v *Devices) take(call palyra.CallID) (pairing.Issued, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	issued, ok := v.issued[call]
	delete(v.issued, call)
	return issued, ok
}
