package access

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/store"
)

const (
	deviceColumns = `SELECT id, name, principal, role, key_id, public_key, certificate, serial, expires_at, paired_at, paired_by,
		call_id, address, seen_at, revoked_at, revoked_by, passkey FROM access_devices`
	devicePrefix = "dev-"
	// manageDevices is the permission to pair and to part.
	manageDevices = palyra.PermitDevicesManage
)

// DeviceID names a device by its key.
func DeviceID(pub ed25519.PublicKey) string { return devicePrefix + keyDigest(pub) }

// MayPair checks, before a code is shown, that the signer may pair a device for
// a person (empty: themselves) with a role (empty: approver), and returns both.
func (r *Registry) MayPair(ctx context.Context, p palyra.Principal, role palyra.Role, sig palyra.Signature) (palyra.Principal,
	palyra.Role, error,
) {
	role = cmp.Or(role, palyra.RoleApprover)
	if err := personRole(role); err != nil {
		return "", "", err
	}
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manageDevices)
		if err != nil {
			return err
		}
		p = cmp.Or(p, by.Principal)
		return pairable(tx, by, p, role)
	})
	if err != nil {
		return "", "", err
	}
	return p, role, nil
}

// pairable checks that by may give p a device with a role.
func pairable(tx *store.Tx, by giver, p palyra.Principal, role palyra.Role) error {
	if p != by.Principal && !by.owner() {
		return onlyOwner() // with another's device one could vote as them
	}
	u, err := knownUser(tx, p)
	if err != nil {
		return err
	}
	if !(giver{palyra.Operator{Role: u.Role}, u}).covers(role) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "%s has the role %s; a device of theirs cannot hold more",
			u.Principal, u.Role).
			WithRemedy("choose a lesser role for the device")
	}
	return by.mayGive(role, u.Workspaces)
}

// AddDevice makes a paired device known. The call that d.Call names holds the decision to; d.PairedBy is who showed
// the code, and must still be able to give what the device gets. A key or a name is never given twice.
func (r *Registry) AddDevice(ctx context.Context, d palyra.Device, pairing palyra.ID) (palyra.Device, error) {
	d, err := r.checkedDevice(d)
	if err != nil {
		return palyra.Device{}, err
	}
	err = r.DB.Write(ctx, "device.paired", func(tx *store.Tx) error {
		u, err := liveUser(tx, d.PairedBy)
		if err != nil {
			return err
		}
		by := giver{palyra.Operator{Principal: u.Principal, Role: u.Role}, u}
		if err := pairable(tx, by, d.Principal, d.Role); err != nil {
			return err
		}
		if err := insertDevice(tx, d); err != nil {
			return err
		}
		return r.record(tx, palyra.DevicePaired{Device: d, Pairing: pairing})
	})
	if err != nil {
		return palyra.Device{}, err
	}
	return d, nil
}

func (r *Registry) checkedDevice(d palyra.Device) (palyra.Device, error) {
	const longest = 256
	pub, err := deviceKey(d)
	if err != nil {
		return palyra.Device{}, err
	}
	if !goodName(d.Name) || strings.HasPrefix(d.Name, devicePrefix) {
		return palyra.Device{}, invalid("a device's name has 1 to 64 characters of a-z, 0-9, '.', '_', '-', and does not begin with dev-")
	}
	if err := personRole(d.Role); err != nil {
		return palyra.Device{}, err
	}
	d.ID, d.KeyID = DeviceID(pub), keyID(pub)
	certified := goodCertificate(d.Certificate, d.Serial, d.ExpiresAt, r.Now())
	if d.Browser() {
		certified = d.Serial == "" && d.ExpiresAt.After(r.Now())
	}
	if !certified || d.Call == "" || len(d.Address) > longest {
		return palyra.Device{}, invalid("a device needs a certificate, or is a browser, and the call that paired it")
	}
	d.ExpiresAt, d.PairedAt = d.ExpiresAt.UTC(), r.Now().UTC()
	d.SeenAt, d.RevokedAt, d.RevokedBy = time.Time{}, time.Time{}, ""
	return d, nil
}

// deviceKey is the bytes of a device's public key.
func deviceKey(d palyra.Device) ([]byte, error) {
	if d.Passkey != nil {
		key, err := passkey.ParseKey(d.PublicKey)
		if err != nil || d.Certificate != "" || d.Passkey.Origin == "" {
			return nil, invalid("a passkey has an origin, a key in PKIX and base64, and no certificate")
		}
		return key.DER, nil
	}
	pub, err := base64.StdEncoding.Strict().DecodeString(d.PublicKey)
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return nil, invalid("the public key is not an Ed25519 key in base64")
	}
	return pub, nil
}

func goodCertificate(cert palyra.Digest, serial string, expires, now time.Time) bool {
	const longest = 64
	return cert.Valid() && serial != "" && len(serial) <= longest && expires.After(now)
}

func insertDevice(tx *store.Tx, d palyra.Device) error {
	var n int64
	kept, err := encodePasskey(d.Passkey)
	if err != nil {
		return err
	}
	err = tx.Get(`SELECT (SELECT COUNT(*) FROM access_operators WHERE key_id = ?) + (SELECT COUNT(*) FROM access_devices WHERE key_id = ?)`,
		[]any{d.KeyID, d.KeyID}, &n)
	if err != nil {
		return err
	}
	if n > 0 {
		return keyTaken()
	}
	n, err = tx.Exec(`INSERT INTO access_devices (id, name, principal, role, key_id, public_key, certificate, serial, expires_at, paired_at,
		paired_by, call_id, address, seen_at, revoked_at, revoked_by, passkey, sign_count)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '', ?, 0)
		ON CONFLICT (name) DO NOTHING`,
		d.ID, d.Name, string(d.Principal), string(d.Role), d.KeyID, d.PublicKey, string(d.Certificate), d.Serial, d.ExpiresAt.UnixNano(),
		d.PairedAt.UnixNano(), string(d.PairedBy), string(d.Call), d.Address, kept)
	if err == nil && n == 0 {
		err = palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "a device is or was called %s", d.Name).
			WithRemedy("choose another name; that of a revoked device is not given again")
	}
	return err
}

// RenewDevice records a device's next certificate, for the key it has.
func (r *Registry) RenewDevice(ctx context.Context, id string, cert palyra.Digest, serial string,
	expires time.Time,
) (palyra.Device, error) {
	if !goodCertificate(cert, serial, expires, r.Now()) {
		return palyra.Device{}, invalid("the certificate is over, or has no digest or serial number")
	}
	var d palyra.Device
	err := r.DB.Write(ctx, "device.renewed", func(tx *store.Tx) (err error) {
		if d, err = device(tx, id, ""); err != nil {
			return err
		}
		if !d.Live() {
			return revoked()
		}
		if d.Browser() {
			return invalid("a browser has no certificate")
		}
		d.Certificate, d.Serial, d.ExpiresAt = cert, serial, expires.UTC()
		if _, err := tx.Exec(`UPDATE access_devices SET certificate = ?, serial = ?, expires_at = ? WHERE id = ?`,
			string(cert), serial, expires.UnixNano(), id); err != nil {
			return err
		}
		return r.record(tx, palyra.DeviceRenewed{Device: id, Certificate: cert, Serial: serial, ExpiresAt: d.ExpiresAt})
	})
	if err != nil {
		return palyra.Device{}, err
	}
	return r.withSeen(d), nil
}

// RevokeDevice ends a device at once: one's own, or that of somebody who has no more than the signer.
func (r *Registry) RevokeDevice(ctx context.Context, id string, sig palyra.Signature) (palyra.Device, error) {
	var d palyra.Device
	err := r.DB.Write(ctx, "device.revoked", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manageDevices)
		if err != nil {
			return err
		}
		if d, err = device(tx, id, ""); err != nil {
			return err
		}
		if err := by.mayEndFor(tx, d.Principal); err != nil {
			return err
		}
		if !d.Live() {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the device %s is revoked already", d.Name).
				WithRemedy("nothing is left to do; 'palyra device list' shows who may come in")
		}
		if err := r.endDevice(tx, id, by.Principal, sig); err != nil {
			return err
		}
		d, err = device(tx, id, "")
		return err
	})
	if err != nil {
		return palyra.Device{}, err
	}
	r.ended([]string{"device:" + id}, "")
	return r.withSeen(d), nil
}

// Devices lists every device ever paired, in that order.
func (r *Registry) Devices(ctx context.Context) ([]palyra.Device, error) {
	var all []palyra.Device
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		all, err = devices(tx)
		return err
	})
	for i := range all {
		all[i] = r.withSeen(all[i])
	}
	return all, err
}

func devices(tx *store.Tx) (all []palyra.Device, err error) {
	err = tx.Each(deviceColumns+` ORDER BY paired_at, id`, nil, func(scan func(...any) error) error {
		d, err := scanDevice(scan)
		all = append(all, d)
		return err
	})
	return all, err
}

// Device returns a device, revoked or not, by its id or its name.
func (r *Registry) Device(ctx context.Context, idOrName string) (palyra.Device, error) {
	var d palyra.Device
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		d, err = device(tx, idOrName, idOrName)
		return err
	})
	return r.withSeen(d), err
}

// DeviceByKey returns the live device of a key: device_revoked when it is revoked, unknown_key when there is none.
func (r *Registry) DeviceByKey(ctx context.Context, keyID string) (palyra.Device, error) {
	var d palyra.Device
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		if d, err = deviceOf(tx, keyID); err == nil {
			_, err = liveUser(tx, d.Principal)
		}
		return err
	})
	if err != nil {
		return palyra.Device{}, err
	}
	return r.withSeen(d), nil
}

// deviceOperator is the operator that a live device's key is. A browser's key lies on the daemon's own machine, as an
// operator's without a passphrase does.
func deviceOperator(tx *store.Tx, keyID string) (palyra.Operator, error) {
	d, err := deviceOf(tx, keyID)
	separation := palyra.SeparationDevice
	switch {
	case d.Passkey != nil:
		separation = d.Passkey.Separation
	case d.Browser():
		separation = palyra.SeparationNone
	}
	return palyra.Operator{
		Principal: d.Principal, Role: d.Role, KeyID: d.KeyID, PublicKey: d.PublicKey, Separation: separation,
		Device: d.ID, AddedAt: d.PairedAt, Passkey: d.Passkey,
	}, err
}

// deviceOf finds the live device of a key.
func deviceOf(tx *store.Tx, keyID string) (palyra.Device, error) {
	d, err := scanDevice(func(dest ...any) error {
		return tx.Get(deviceColumns+` WHERE key_id = ?`, []any{keyID}, dest...)
	})
	switch {
	case errors.Is(err, store.ErrNoRows):
		return palyra.Device{}, unknownKey()
	case err == nil && !d.Live():
		return palyra.Device{}, revoked()
	}
	return d, err
}

func device(tx *store.Tx, id, name string) (palyra.Device, error) {
	d, err := scanDevice(func(dest ...any) error {
		return tx.Get(deviceColumns+` WHERE id = ? OR name = ?`, []any{id, name}, dest...)
	})
	if errors.Is(err, store.ErrNoRows) {
		return palyra.Device{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no device %s", palyra.Clip(id, 64)).
			WithRemedy("see 'palyra device list'")
	}
	return d, err
}

func scanDevice(scan func(...any) error) (palyra.Device, error) {
	var d palyra.Device
	var expires, paired, seen, gone int64
	var kept string
	err := scan(&d.ID, &d.Name, &d.Principal, &d.Role, &d.KeyID, &d.PublicKey, &d.Certificate, &d.Serial, &expires, &paired, &d.PairedBy,
		&d.Call, &d.Address, &seen, &gone, &d.RevokedBy, &kept)
	if err == nil {
		d.Passkey, err = decodePasskey(kept)
	}
	d.ExpiresAt, d.PairedAt, d.SeenAt, d.RevokedAt = moment(expires), moment(paired), moment(seen), moment(gone)
	return d, err
}

func revoked() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "the device was revoked").
		WithRemedy("pair it again, with a new key and name")
}
