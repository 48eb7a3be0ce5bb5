package enrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/identity"
	"palyra/internal/journal"
	"palyra/internal/store"
	"palyra/internal/webauthn"
)

// Registry says what the registry of access stands on.
type Registry struct {
	DB          *store.DB
	Journal     *journal.Journal
	StateID     string
	OperatorKey string // the file of the key of the daemon's own user
	Now         func() time.Time
	Log         *slog.Logger
	access      *access.Registry
}

// Open opens the registry, holds it against the journal and, on an empty one, makes the first owner:
// the person the daemon runs as, with a key of their own.
func (r Registry) Open(ctx context.Context) (_ *access.Registry, err error) {
	r.access, err = access.New(access.Config{DB: r.DB, Journal: r.Journal, StateID: r.StateID, Now: r.Now, Passkey: webauthn.Check})
	if err != nil {
		return nil, err
	}
	known, err := r.access.Operators(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.checkOperators(ctx, known); err != nil {
		return nil, err
	}
	err = r.access.Verify(ctx, func(kind string, f func([]byte) error) error { return r.Journal.Bodies(ctx, kind, f) })
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		return r.access, r.makeOwner(ctx)
	}
	if err := r.checkSoleKey(ctx, known); err != nil {
		return nil, err
	}
	return r.access, r.access.Adopt(ctx)
}

// checkSoleKey refuses a start on which nobody could decide: the only key that may, made for this user, is not
// where it was. Where another person or a device can, the start is theirs as well.
func (r Registry) checkSoleKey(ctx context.Context, known []palyra.Operator) error {
	file := r.OperatorKey
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	live := slices.DeleteFunc(slices.Clone(known), func(o palyra.Operator) bool { return !o.RemovedAt.IsZero() })
	devices, err := r.access.Devices(ctx)
	if err != nil {
		return err
	}
	if len(live) != 1 || live[0].Separation == palyra.SeparationOtherUID || slices.ContainsFunc(devices, palyra.Device.Live) {
		return nil
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonBadCredential,
		"the operator key %s is gone, and it (%s) is the only one that may decide here", file, live[0].KeyID).
		WithRemedy("put the file back from a backup; without one, begin a new state: palyra up --new-state, which keeps this one beside it")
}

// checkOperators holds the table of keys that may decide against the journal,
// which is signed: a row that somebody wrote past the daemon gives nobody a say.
func (r Registry) checkOperators(ctx context.Context, known []palyra.Operator) error {
	signed := map[string]palyra.Operator{}
	err := r.Journal.Bodies(ctx, "operator.added", func(raw []byte) error {
		var e palyra.OperatorAdded
		err := json.Unmarshal(raw, &e)
		signed[e.Operator.KeyID] = e.Operator
		return err
	})
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	err = r.Journal.Bodies(ctx, "operator.removed", func(raw []byte) error {
		var e palyra.OperatorRemoved
		err := json.Unmarshal(raw, &e)
		gone[e.KeyID] = true
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range known {
		s, ok := signed[o.KeyID]
		if !ok || s.Principal != o.Principal || s.Role != o.Role || s.PublicKey != o.PublicKey || s.Separation != o.Separation ||
			gone[o.KeyID] == o.RemovedAt.IsZero() {
			return differsFrom(o.KeyID)
		}
		delete(signed, o.KeyID)
	}
	for id := range signed { // with its rows gone a state looks new, and a new one gets a new owner
		return differsFrom(id)
	}
	return nil
}

func differsFrom(key string) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "the operator key %s is not the one the journal knows",
		palyra.Clip(key, 64)).
		WithRemedy("somebody changed the state past the daemon; look at 'palyra journal verify' on a copy, and restore a backup")
}

// makeOwner makes the key file before its record: after a crash between the two the file is found and used.
func (r Registry) makeOwner(ctx context.Context) error {
	file := r.OperatorKey
	key, err := identity.Load(file, nil)
	if errors.Is(err, fs.ErrNotExist) || palyra.CodeOf(err) == palyra.NotFound {
		key, err = identity.Create(file)
	}
	if err != nil {
		return fmt.Errorf("enrol: operator key: %w", err)
	}
	defer key.Close()
	owner := palyra.Operator{
		Principal: palyra.Principal("user:" + login()), Role: palyra.RoleOwner, KeyID: key.KeyID(), PublicKey: key.Public(),
		Separation: key.Separation(),
	}
	o, err := r.access.AddFirstOwner(ctx, owner, int64(os.Geteuid()))
	if err != nil {
		return err
	}
	r.Log.Info("made the first owner and an operator key; protect it with 'palyra operator protect'",
		"owner", o.Principal, "key", file, "key_id", o.KeyID, "approver_separation", o.Separation)
	return nil
}

// login is the name of the user the daemon runs as, or its number.
func login() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return fmt.Sprint(os.Geteuid())
	}
	name := u.Username
	if i := strings.LastIndexByte(name, '\\'); i >= 0 { // DOMAIN\name
		name = name[i+1:]
	}
	return name
}
