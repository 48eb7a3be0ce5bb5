// Package daemon puts the parts together and runs them. It is the only package
// that names leaves; nothing but the mains imports it.
//
// New opens the state in the order in which things depend on each other and settles what an earlier daemon left;
// Run serves until its context ends; Close gives everything back. A second daemon on the same state is refused
// before it touches anything.
package daemon

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/artifact"
	"palyra/internal/attest"
	"palyra/internal/bootclock"
	"palyra/internal/bundle"
	"palyra/internal/config"
	"palyra/internal/durable"
	"palyra/internal/enrol"
	"palyra/internal/hostgroup"
	"palyra/internal/journal"
	"palyra/internal/keyring"
	"palyra/internal/limit"
	"palyra/internal/mask"
	"palyra/internal/masked"
	"palyra/internal/mcp/upstream"
	"palyra/internal/observe"
	"palyra/internal/policy"
	"palyra/internal/policy/inforce"
	"palyra/internal/posture"
	"palyra/internal/prune"
	"palyra/internal/push"
	"palyra/internal/rpc"
	"palyra/internal/rpc/status"
	"palyra/internal/run"
	"palyra/internal/session"
	"palyra/internal/signing"
	"palyra/internal/skill/registry"
	"palyra/internal/statedir"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/tiera"
	"palyra/internal/ulid"
	"palyra/internal/undo"
	"palyra/internal/vault"
	"palyra/internal/vault/keeper"
	"palyra/internal/workspace"
)

//go:embed schema
var schema embed.FS

// Config says what to run.
type Config struct {
	Settings   config.Config
	Version    string
	CellDigest string // SHA-256 of the palyra-cell to run, in hex; without it no program is run
	WasmDigest string // SHA-256 of the palyra-wasm to run, in hex; without it there are no skills
	NewState   bool   // put what is there of a state aside and begin a new one
	Log        *slog.Logger
	Mask       *mask.Masker // what masks values in what leaves; nil: nothing does
}

// Daemon is the parts, wired.
type Daemon struct {
	records
	access   *access.Registry
	policy   *policy.Engine
	groups   hostgroup.Set
	bundles  *bundle.Bundles
	projects bundle.Projects
	desk     *approval.Desk
	observe  *observe.Mode
	attester *attest.Attester
	work     *workspace.Registry
	files    *artifact.Store
	sessions *session.Sessions
	undo     *undo.Undo
	vault    *vault.Vault
	path     *path
	posture  *posture.Store
	devices  *enrol.Devices
	push     *push.Push
	server   atomic.Pointer[rpc.Server] // nil before Run
	limits   *limit.Limiter
	trouble  status.Trouble
	shelved  prune.Usage
	stopped  palyra.DaemonStopped // how Run ended
}

func now() time.Time { return time.Now() }

func newID() palyra.ID { return palyra.ID(ulid.New(now())) }

// New opens the state and wires the parts.
func New(ctx context.Context, c Config) (_ *Daemon, err error) {
	if c.Log == nil {
		return nil, errors.New("daemon: new: no log")
	}
	d := &Daemon{records: newRecords(c)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	for _, step := range []func(context.Context) error{
		d.openState, d.openKeys, d.openAccess, d.openPolicy, d.openVault, d.openDesk, d.openDevices, d.openPath, d.openPosture, d.settle,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// openState takes the lock and opens the store.
func (d *records) openState(ctx context.Context) error {
	paths := d.Settings.Paths
	if err := paths.Make(); err != nil {
		return err
	}
	held, err := durable.Lock(paths.State + ".lock")
	if locked := (*durable.LockedError)(nil); errors.As(err, &locked) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonSecondDaemon, "another daemon (pid %d) runs on this state: %s", locked.PID,
			filepath.Dir(paths.State)).
			WithRemedy("use that one (a shell that does not find it has another XDG_RUNTIME_DIR than it was started with), stop it with " +
				"'palyra down', or set PALYRA_HOME to another directory").WithCause(err)
	}
	if err != nil {
		return fmt.Errorf("daemon: lock: %w", err)
	}
	d.lock = held
	left, err := d.checkState()
	if err != nil {
		return err
	}
	engine, err := sqlite.Open(paths.State)
	if err != nil {
		return err
	}
	d.db, err = store.Open(ctx, engine, upstream.Schema(),
		store.SchemaOf("daemon", schema), journal.Schema(), keyring.Schema(), access.Schema(), inforce.Schema(),
		approval.Schema(), workspace.Schema(), artifact.Schema(), attest.Schema(), run.Schema(), posture.Schema(), vault.Schema(),
		registry.Schema(), tiera.Schema(), push.Schema())
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	return d.nameState(ctx, left)
}

// nameState gives the state its id, once: the audience of signatures and the
// origin of the journal. Keys of a state come after its id: where some were left
// before, this is not their store. A log alone is a first start's that was cut off.
func (d *records) nameState(ctx context.Context, left []string) error {
	read := func(tx *store.Tx) error { return tx.Get(`SELECT id FROM state WHERE one=1`, nil, &d.stateID) }
	err := d.db.Read(ctx, read)
	if !errors.Is(err, store.ErrNoRows) {
		return err
	}
	log := d.Settings.Paths.State + "-wal"
	if left = slices.DeleteFunc(left, func(path string) bool { return path == log }); len(left) > 0 {
		return statedir.Gone(d.Settings.Paths.State, left)
	}
	return d.db.Write(ctx, "state.named", func(tx *store.Tx) error {
		if _, err := tx.Exec(`INSERT INTO state (one, id) VALUES (1, ?) ON CONFLICT DO NOTHING`, string(newID())); err != nil {
			return err
		}
		return read(tx)
	})
}

// openKeys opens the signing keys, then the journal they sign.
func (d *records) openKeys(ctx context.Context) error {
	ring, err := keyring.Open(ctx, keyring.Config{
		Dir: d.Settings.Paths.Keys, Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Name: "palyra/" + d.stateID, DB: d.db, Now: now,
	})
	if err != nil {
		return err
	}
	d.ring = ring
	d.journal, err = journal.New(ctx, journal.Config{
		DB: d.db, Signer: ring.Signer(keyring.Journal), Keys: ring.Verifiers(keyring.Journal), Now: now,
	})
	if err != nil {
		return err
	}
	ring.OnRotate(func(use palyra.KeyUse) {
		if use == keyring.Journal {
			if err := d.journal.SetSigner(ring.Signer(use)); err != nil {
				d.Log.Error("the journal did not take its new key", "error", err)
			}
		}
	})
	if err := d.recordBegin(ctx); err != nil {
		return err
	}
	return ring.Attach(ctx, d.journal)
}

// openVault opens the vault, if it can: what is masked must be known before anything leaves. Without its key everything else goes on.
func (d *Daemon) openVault(ctx context.Context) (err error) {
	d.vault, err = vault.New(vault.Config{
		DB: d.db, Journal: d.journal, Policy: d.policy, Now: now, NewID: newID, Log: d.Log, Known: d.Mask,
		Hosts:   func(hosts []string) ([]string, error) { return d.path.tiers.Guard.Check(hosts) },
		Inspect: signing.Inspect, Keepers: keeper.All(d.Settings.Paths.Keys), First: keeper.KeyFile,
	})
	if err != nil {
		return err
	}
	d.vault.Open(ctx)
	return d.ring.SetVault(ctx, d.vault.DaemonKeys())
}

// openDesk opens the approvals and the attestations, and finds out whether calls are observed.
func (d *Daemon) openDesk(ctx context.Context) (err error) {
	if d.observe, err = observe.Open(ctx, observe.Config{Journal: d.journal, Now: now, Boot: bootclock.Now}); err != nil {
		return err
	}
	a := d.Settings.Approvals
	d.desk, err = approval.New(approval.Config{
		DB: d.db, Journal: d.journal, Now: now, Boot: bootclock.Now, NewID: newID, Log: d.Log, Wait: a.Wait(), DenyHold: a.DenyHold(),
		OnceTTL: a.OnceTTL(), MaxTTL: a.MaxTTL(), MaxPending: int(a.MaxPending), DailyBytes: a.DailyBytes,
		Judge: d.policy, Groups: d.groups, Mask: masked.Words{Masker: d.Mask},
	})
	if err != nil {
		return err
	}
	d.attester, err = attest.New(attest.Config{
		DB: d.db, StateID: d.stateID,
		Signer: func() attest.Signer { return d.ring.Signer(keyring.Attestation) },
	})
	return err
}

// settle ends calls that an earlier daemon left open and records the start.
func (d *Daemon) settle(ctx context.Context) error {
	bootID, _ := bootclock.Now()
	if _, err := d.journal.Record(ctx, palyra.DaemonStarted{Version: d.Version, Instance: d.instance, BootID: bootID}); err != nil {
		return err
	}
	if err := d.path.tiers.Runner.Recover(ctx); err != nil { // nothing of an earlier daemon runs when its calls are told unknown
		return err
	}
	waits, err := d.path.calls.Unsettled(ctx)
	if err != nil {
		return err
	}
	if err := d.path.tiers.Runner.DropHeld(ctx, waits); err != nil { // before any of them can be settled
		return err
	}
	if err := d.path.calls.Recover(ctx, d.desk.Settled); err != nil {
		return err
	}
	return d.path.runs.Recover(ctx)
}

// Close stops the calls under way and closes the state. It may be called after a New that failed half way.
func (d *Daemon) Close() error {
	var errs []error
	if d.path != nil {
		errs = append(errs, d.path.close())
		if d.undo != nil {
			errs = append(errs, d.undo.Close())
		}
		d.tidy()
	}
	if d.path != nil && d.journal != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		d.stopped.Instance = d.instance
		_, err := d.journal.Record(ctx, d.stopped)
		errs = append(errs, err)
	}
	errs = append(errs, d.close())
	return errors.Join(errs...)
}
