package client

import (
	"context"
	"time"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/ca"
)

// Renew has the daemon make this device's next certificate, and stores it.
func (c *Client) Renew(ctx context.Context) (palyra.Device, error) {
	r := c.cfg.Remote
	if r == nil {
		return palyra.Device{}, palyra.Errorf(palyra.Invalid, palyra.ReasonDeviceRequired, "only a device renews its certificate").
			WithRemedy("name the daemon: palyra device renew NAME")
	}
	return r.Renew(ctx)
}

// Renew has the daemon make this device's next certificate, and stores it. A certificate that
// cannot be used is not stored.
func (r *Remote) Renew(ctx context.Context) (palyra.Device, error) {
	c, err := Open(Config{Remote: r, Door: OperatorDoor}) // as the device itself, never with a token that it holds
	if err != nil {
		return palyra.Device{}, err
	}
	defer func() { _ = c.Close() }()
	res, err := c.devices().RenewDevice(ctx, &v1.RenewDeviceRequest{})
	d, err := word[palyra.Device](res.GetDevice(), err)
	if err != nil {
		return palyra.Device{}, err
	}
	next := r.Copy()
	next.Device, next.Certificate, next.Authorities = d, res.GetCertificate(), res.GetAuthorities()
	if err := r.fits(next); err != nil {
		return palyra.Device{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := next.keep(r.dir); err != nil {
		return palyra.Device{}, err
	}
	r.Device, r.Certificate, r.Authorities = next.Device, next.Certificate, next.Authorities
	return d, nil
}

// fits refuses a renewed certificate that would not let this device in again: storing it would lose
// the working one.
func (r *Remote) fits(next *Remote) error {
	_, _, err := ca.Client(ca.ClientConfig{Certificate: next.Certificate, Key: r.key.Certificate(), Authorities: next.Authorities})
	if err == nil && (next.Device.ID != r.Copy().Device.ID || next.Device.KeyID != r.key.KeyID() ||
		next.Device.Certificate != palyra.SumBytes(next.Certificate)) {
		err = palyra.Errorf(palyra.Denied, palyra.ReasonBadCertificate, "it is not this device's")
	}
	if err != nil {
		return palyra.Errorf(palyra.Internal, palyra.ReasonBadCertificate, "the daemon's next certificate for this device is of no use: %s",
			palyra.AsError(err).Text).
			WithRemedy("the present one stays; look at the daemon's log, and check the clocks of both machines").WithCause(err)
	}
	return nil
}

// RenewIfDue renews the certificate when two thirds of its life are over, and reports whether it
// did. A certificate that has ended cannot be renewed: the daemon lets nobody in with it.
func (r *Remote) RenewIfDue(ctx context.Context, now time.Time) (bool, error) {
	ends, due := r.Expires()
	if now.Before(due) || !now.Before(ends) {
		return false, nil
	}
	_, err := r.Renew(ctx)
	return err == nil, err
}
