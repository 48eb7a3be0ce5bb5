package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/access"
	"palyra/internal/rpc/approvals"
	"palyra/internal/rpc/attestations"
	"palyra/internal/rpc/changes"
	"palyra/internal/rpc/journal"
	"palyra/internal/rpc/keys"
	"palyra/internal/rpc/policy"
	"palyra/internal/rpc/runs"
	"palyra/internal/rpc/sandbox"
	"palyra/internal/rpc/sessions"
	"palyra/internal/rpc/status"
	"palyra/internal/rpc/tools"
	vaultsvc "palyra/internal/rpc/vault"
	"palyra/internal/rpc/workspaces"

	placed "palyra/internal/config/home"
	devicesvc "palyra/internal/rpc/devices"
	mcpsvc "palyra/internal/rpc/mcp"
	observesvc "palyra/internal/rpc/observe"
	skillsvc "palyra/internal/rpc/skills"
)

// Run serves the doors until ctx ends or a part fails.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var once sync.Once
	server, err := d.doors(ctx, func(by palyra.Principal) {
		once.Do(func() {
			d.stopped = palyra.DaemonStopped{How: "signed", By: by}
			stop(nil)
		})
	})
	if err != nil {
		return err
	}
	d.server.Store(server)
	d.devices.Serve(d.remoteDoor(server))
	d.trouble.Set("console", d.devices.OpenConsole(server.OpenConsole, server.OpenBeyond))
	parts := []func(context.Context) error{
		server.Run, d.desk.Run, d.sessions.Run, d.access.Run, d.prune, d.tryOut, d.bundles.Follow, d.push.Run,
	}
	if d.path.upstreams != nil {
		parts = append(parts, d.path.upstreams.Tend)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(parts))
	for i, part := range parts {
		wg.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				stop(errs[i])
			}
		})
	}
	d.Log.Info("palyrad serves", "version", d.Version, "agent", server.AgentSocket, "operator", server.OperatorSocket)
	<-ctx.Done()
	d.path.runs.Stop()
	d.path.calls.Stop() // waiting requests are answered before the doors close
	wg.Wait()
	err = errors.Join(errs...)
	switch {
	case err != nil:
		d.stopped.How = "failed"
	case d.stopped.How == "":
		d.stopped.How = "signal"
	}
	return err
}

// Artifacts are kept for a while: the attestation binds their digest for good.
const (
	keepArtifacts = 30 * 24 * time.Hour
	pruneEvery    = 6 * time.Hour
)

// prune removes old artifacts, quarantined files and caches until ctx ends. A failure is logged and tried again.
func (d *Daemon) prune(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		if _, err := d.files.Prune(ctx, now().Add(-keepArtifacts)); err != nil && ctx.Err() == nil {
			d.Log.Warn("old artifacts could not be removed", "error", err)
		}
		d.pruneShelves(ctx)
		if _, err := d.undo.Prune(ctx); err != nil && ctx.Err() == nil {
			d.Log.Warn("not all of what calls replaced could be removed in time", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// doors binds the two sockets and puts every service on them; the doors that come and go have the same.
func (d *Daemon) doors(ctx context.Context, stop func(by palyra.Principal)) (*rpc.Server, error) {
	paths := d.Settings.Paths
	dir := paths.SocketDir()
	c := rpc.Config{
		AgentSocket:    filepath.Join(dir, placed.AgentSocket),
		OperatorSocket: filepath.Join(dir, placed.OperatorSocket),
		StateID:        d.stateID, Access: d.access, Agents: d.access, Roles: d.access, Journal: d.journal, Limits: d.limits, Log: d.Log,
		Now: now, Mask: d.Mask,
	}
	desk := approvals.New(deskPart{d.desk, d}, d.desk, now)
	c.Services = []rpc.Service{
		status.New(statusPart{d, c.AgentSocket, c.OperatorSocket, stop}),
		tools.New(catalogPart{d.path.catalog}, callsPart{d.path.calls, d.journal, d.observe}, callsPart{d.path.calls, d.journal, d.observe}),
		runs.New(runsPart{d.path.runs, d.path.models, d.Settings.Models.Principals}, desk),
		desk,
		sessions.New(d.sessions),
		changes.New(callsPart{d.path.calls, d.journal, d.observe}, d.undo),
		workspaces.New(d.work),
		access.New(d.registry()).WithConsole(consolePart{d}),
		devicesvc.New(d.devices, d.access, d.devices, d.devices, d.push),
		keys.New(d.keys()),
		vaultsvc.New(d.vault, d.access.Lesser, filepath.Dir(d.Settings.Paths.State)),
		journal.New(journalPart{d.journal}),
		policy.New(policyPart{d.explainer(), d}, bundlesPart{d.bundles}, d.history()),
		observesvc.New(d.observe),
		attestations.New(d.attester),
		sandbox.New(d.posture),
	}
	if d.path.skills != nil {
		c.Services = append(c.Services, skillsvc.New(d.path.skills, d.access.Lesser))
	}
	if d.path.upstreams != nil {
		c.Services = append(c.Services, mcpsvc.New(d.path.upstreams))
	}
	if err := paths.TellWorkspaces(nil, false); err != nil { // an earlier daemon's list is not this one's
		return nil, err
	}
	server, err := rpc.New(c)
	if err != nil {
		return nil, err
	}
	if err := paths.SaveAddr(); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	d.work.Told(ctx)
	return server, nil
}

// consolePart signs browsers in.
type consolePart struct{ d *Daemon }

// Login implements the door's Console.
func (p consolePart) Login(ctx context.Context, c rpc.Caller, door string) (string, time.Time, error) {
	return p.d.server.Load().Login(ctx, c, door)
}
