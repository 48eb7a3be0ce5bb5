package daemon

import (
	"context"

	"palyra"
	"palyra/internal/ca"
	"palyra/internal/enrol"
	"palyra/internal/limit"
	"palyra/internal/pairing"
	"palyra/internal/push"
	"palyra/internal/rpc"
)

// openAccess opens the registry of those who may come in.
func (d *Daemon) openAccess(ctx context.Context) (err error) {
	d.access, err = enrol.Registry{
		DB: d.db, Journal: d.journal, StateID: d.stateID, OperatorKey: d.Settings.Paths.OperatorKey, Now: now, Log: d.Log,
	}.Open(ctx)
	return err
}

// openDevices opens the parts that serve other machines. Nobody can come in before Run.
func (d *Daemon) openDevices(ctx context.Context) (err error) {
	l := d.Settings.Limits
	d.limits = limit.New(limit.Config{
		Requests: l.RequestsPerSecond, Propose: l.ProposePerSecond, Decide: l.DecidePerSecond, Logins: l.LoginPerMinute, Now: now,
	})
	d.devices, err = enrol.New(ctx, enrol.Config{
		Settings: d.Settings, StateID: d.stateID,
		Keys: ca.NewMovable(d.Settings.Paths.Keys, d.vault.DaemonKeys()), Access: d.access, NewID: newID, Now: now, Log: d.Log,
		Record: func(ctx context.Context, events ...palyra.Event) error {
			_, err := d.journal.Record(ctx, events...)
			return err
		},
		Trouble: func(err error) { d.trouble.Set("remote", err) },
	})
	if err != nil {
		return err
	}
	d.push, err = push.New(ctx, push.Config{
		Settings: d.Settings, DB: d.db, Keys: d.devices.Keys, Append: d.journal.Append, Desk: d.desk, Registry: d.access, Now: now,
		Trouble: func(err error) { d.trouble.Set("push", err) }, Log: d.Log,
	})
	if err != nil {
		return err
	}
	d.access.OnEnd(d.credentialEnded)
	return d.keys().RecordAuthority(ctx)
}

// keys are all signing keys.
func (d *Daemon) keys() enrol.Keys {
	return enrol.Keys{
		Ring: d.ring, Authority: d.devices.Authority, Kept: d.devices.Keys, Journal: d.journal,
		Vault: func(by palyra.Principal, sig palyra.Signature) enrol.Vault { return d.vault.OwnKeys(by, sig) },
	}
}

// remoteDoor is the door of devices.
func (d *Daemon) remoteDoor(s *rpc.Server) enrol.Remote {
	v := d.devices
	return enrol.Remote{
		Open: func() error {
			_, err := s.OpenRemote(rpc.RemoteConfig{
				Listen: d.Settings.Remote.Listen, TLS: v.TLS, Name: v.Named, Device: v.Device, Seen: d.access.Seen,
				PairProtocol: pairing.Protocol, Pair: v.Office.Serve,
			})
			return err
		},
		Close: func() { s.CloseRemote() }, Address: s.RemoteAddress,
	}
}
