package daemon

import (
	"context"
	"errors"
	"strings"

	"palyra"
	"palyra/internal/enrol"

	rpcaccess "palyra/internal/rpc/access"
)

// credentialEnded ends everything that depends on a credential which the registry has ended: its requests and
// connections, and of an agent also its sessions with their questions and leases, and its runs and calls under way.
func (d *Daemon) credentialEnded(id string) {
	ctx := context.Background()
	if s := d.server.Load(); s != nil {
		s.EndCredential(id)
	}
	who := palyra.Principal(id)
	if dev, ok := strings.CutPrefix(id, "device:"); ok {
		d.devices.Adjust()
		found, err := d.access.Device(ctx, dev)
		if err != nil {
			d.Log.Error("the agent of a device that ended could not be found", "error", err)
			return
		}
		who = found.Agent().Principal
	}
	if !who.IsAgent() || d.path == nil {
		return
	}
	err := d.sessions.CloseAll(ctx, who, string(palyra.SystemDaemon))
	err = errors.Join(err, d.path.runs.CancelAll(ctx, who, string(palyra.SystemDaemon)))
	d.path.calls.CancelAll(who)
	if err != nil {
		d.Log.Error("what an ended credential left could not be ended", "principal", string(who), "error", err)
	}
}

// registry is what serves AccessService.
func (d *Daemon) registry() rpcaccess.Registry {
	p := enrol.People{Registry: d.access, Workspaces: d.work}
	return rpcaccess.Registry{Keys: p, People: p, Tokens: p, Roles: p}
}
