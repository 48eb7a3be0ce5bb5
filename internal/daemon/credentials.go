package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/keyring"
	rpcaccess "palyra/internal/rpc/access"
)

// credentialEnded ends what hangs on a credential that the registry has ended: its
// requests and connections, and of an agent also its sessions with their questions
// and grants, and its runs and calls under way.
func (d *Daemon) credentialEnded(id string) {
	ctx := context.Background()
	if s := d.devices.server.Load(); s != nil {
		s.EndCredential(id)
	}
	who := palyra.Principal(id)
	if dev, ok := strings.CutPrefix(id, "device:"); ok {
		d.devices.adjust()
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
	err := d.sessions.CloseAll(ctx, who, "system:daemon")
	err = errors.Join(err, d.path.runs.CancelAll(ctx, who, "system:daemon"))
	d.path.calls.CancelAll(who)
	if err != nil {
		d.Log.Error("what an ended credential left could not be ended", "principal", string(who), "error", err)
	}
}

// registry is what serves AccessService.
func (d *Daemon) registry() rpcaccess.Registry {
	p := peoplePart{d.access, d}
	return rpcaccess.Registry{Keys: p, People: p, Tokens: p, Roles: p}
}

// peoplePart is the registry, which does not know workspaces: whoever is bound to
// one must be bound to one that is registered, or a wrong letter would bind them to
// nothing without a word.
type peoplePart struct {
	*access.Registry
	d *Daemon
}

// AddUser implements the door's People.
func (p peoplePart) AddUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	if err := p.registered(ctx, u.Workspaces); err != nil {
		return palyra.User{}, err
	}
	return p.Registry.AddUser(ctx, u, sig)
}

// ChangeUser implements the door's People.
func (p peoplePart) ChangeUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	if err := p.registered(ctx, u.Workspaces); err != nil {
		return palyra.User{}, err
	}
	return p.Registry.ChangeUser(ctx, u, sig)
}

// AddToken implements the door's Tokens.
func (p peoplePart) AddToken(ctx context.Context, t palyra.Token, ttl time.Duration, sig palyra.Signature) (palyra.Token, palyra.Secret, error) {
	if err := p.registered(ctx, t.Workspaces); err != nil {
		return palyra.Token{}, palyra.Secret{}, err
	}
	return p.Registry.AddToken(ctx, t, ttl, sig)
}

func (p peoplePart) registered(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	known, err := p.d.work.List(ctx)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !slices.ContainsFunc(known, func(w palyra.Workspace) bool { return w.Path == path }) {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "%s is not a registered workspace", palyra.Clip(path, 256)).
				WithRemedy("'palyra workspace list' shows them; register it first with 'palyra workspace add'")
		}
	}
	return nil
}

// keysPart is every signing key of the daemon: the ring's and the authority's.
type keysPart struct {
	*keyring.Ring
	d *Daemon
}

const useCA = "ca"

// List implements the door's Ring.
func (p keysPart) List() []palyra.Key {
	list := p.Ring.List()
	for _, r := range p.d.devices.authority.Rotations() {
		list = append(list, r.Old)
	}
	return append(list, p.d.devices.authority.Key())
}

// Rotate implements the door's Ring.
func (p keysPart) Rotate(ctx context.Context, use string, by palyra.Principal) (palyra.Key, error) {
	if use != useCA {
		return p.Ring.Rotate(ctx, use, by)
	}
	old, next, sig, err := p.d.devices.authority.Rotate(ctx)
	if err != nil {
		return palyra.Key{}, err
	}
	_, err = p.d.journal.Record(context.WithoutCancel(ctx), palyra.KeyRotated{Use: useCA, Old: old.ID, Key: next, By: by, Sig: sig})
	return next, err
}

// recordAuthority puts the authority's keys on record that are not: the first one,
// and one that came when the daemon died before it could say so.
func (d *Daemon) recordAuthority(ctx context.Context) error {
	known := map[string]bool{}
	for _, kind := range []string{"key.created", "key.rotated"} {
		err := d.eachEntry(ctx, kind, func(raw []byte) error {
			var e struct {
				Key palyra.Key `json:"key"`
			}
			err := json.Unmarshal(raw, &e)
			known[e.Key.ID] = true
			return err
		})
		if err != nil {
			return err
		}
	}
	var events []palyra.Event
	rotations := d.devices.authority.Rotations()
	first := d.devices.authority.Key()
	if len(rotations) > 0 {
		first = rotations[0].Old
	}
	if !known[first.ID] {
		events = append(events, palyra.KeyCreated{Key: first})
	}
	for _, r := range rotations {
		if !known[r.New.ID] {
			events = append(events, palyra.KeyRotated{Use: useCA, Old: r.Old.ID, Key: r.New, By: "system:daemon", Sig: r.Sig})
		}
	}
	if len(events) == 0 {
		return nil
	}
	_, err := d.journal.Record(ctx, events...)
	return err
}

// trouble is what does not work and should be known.
type trouble struct {
	mu sync.Mutex
	by map[string]string
}

// set says what is wrong with a part, or with nil that nothing is.
func (t *trouble) set(part string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]string{}
	}
	delete(t.by, part)
	if err != nil {
		e := palyra.AsError(err)
		t.by[part] = e.Text + "; " + e.Remedy
	}
}

func (t *trouble) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, part := range slices.Sorted(maps.Keys(t.by)) {
		out = append(out, part+": "+t.by[part])
	}
	return out
}
