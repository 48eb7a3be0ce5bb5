// Package access knows who may do what: people, their signing keys, devices and API tokens, agents by their tokens,
// roles by their permissions, and which signatures were used.
//
// Words: a user is a person with a role; an operator is a key of theirs with a role of its own; a device is another
// machine of theirs, with a key; a token is a bearer's credential, with scopes and an end; an agent is a named
// caller with an owner and a token; an intent is one signed request. A credential may do what both its own role and
// its person's hold.
//
// Promises: every change is journaled in the transaction that makes it; a signature counts once, also across a
// restart and a clock that was set back; what is removed ends at once, and with a person all that is theirs; nobody
// gives more than they have; the last owner cannot be removed; nobody but an owner makes or unmakes one; the name
// of a person, a device or an agent is never given twice, because grants outlive them.
//
// The package does not read headers or sockets: the doors do, and hand in what they found.
//
// Its words are those of docs/words.md.
package access

import (
	"context"
	"embed"
	"errors"
	"sync"
	"time"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/store"
)

//go:embed schema
var schema embed.FS

// Schema returns the part's tables.
func Schema() store.Schema { return store.SchemaOf("access", schema) }

// Config wires a Registry.
type Config struct {
	DB      *store.DB
	Journal store.Recorder
	StateID string // the audience that signatures must name
	Now     func() time.Time

	// Passkey holds what a passkey signed to the rules of WebAuthn, a second time; nil: no passkey counts.
	Passkey func(p palyra.Passkey, key passkey.Key, message []byte, sig string, a palyra.Assertion) error
}

// Registry is the access registry.
type Registry struct {
	Config

	mu     sync.Mutex // guards the fields below; never held across SQL
	pruned time.Time
	onEnd  []func(credentialID string)
	used   map[string]time.Time // tokens, by id, since the last flush
	seen   map[string]time.Time // devices

	// what every request asks; forgotten with every change of the registry, before that is acknowledged
	standings *store.Memo[asked, palyra.Standing]
	caps      *store.Memo[palyra.Principal, capReach]
	people    *store.Memo[int64, palyra.Operator]
	commands  *store.Memo[typing, bool] // whether their commands are agent:local's
	local     *store.Memo[struct{}, palyra.Agent]
}

// New returns a Registry.
func New(c Config) (*Registry, error) {
	if c.DB == nil || c.Journal == nil || c.StateID == "" || c.Now == nil {
		return nil, errors.New("access: new: a part is missing")
	}
	return &Registry{
		Config: c, used: map[string]time.Time{}, seen: map[string]time.Time{},
		standings: store.NewMemo[asked, palyra.Standing](c.DB, maxKnown, tables...),
		caps:      store.NewMemo[palyra.Principal, capReach](c.DB, maxKnown, tables...),
		people:    store.NewMemo[int64, palyra.Operator](c.DB, maxKnown, tables...),
		commands:  store.NewMemo[typing, bool](c.DB, maxKnown, tables...),
		local:     store.NewMemo[struct{}, palyra.Agent](c.DB, 1, tables...),
	}, nil
}

// tables are those of which the registry remembers what it read.
var tables = []string{"access_operators", "access_agents", "access_users", "access_devices"}

// maxKnown bounds how many answers of a kind are remembered.
const maxKnown = 4096

// record journals e in tx. Everything that changes who may do what comes by here.
func (r *Registry) record(tx *store.Tx, e palyra.Event) error {
	_, err := r.Journal.Append(tx, e)
	return err
}

// moment turns a column into a time; 0 is none.
func moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// AddFirstOwner makes a person and their key the owner of an empty registry. uid is the user that the daemon runs
// as, whose unsigned requests may look around as this owner.
func (r *Registry) AddFirstOwner(ctx context.Context, o palyra.Operator, uid int64) (palyra.Operator, error) {
	o.Role = palyra.RoleOwner
	o, err := r.checked(o)
	if err != nil {
		return palyra.Operator{}, err
	}
	err = r.DB.Write(ctx, "operator.added", func(tx *store.Tx) error {
		var n int64
		if err := tx.Get(`SELECT COUNT(*) FROM access_operators`, nil, &n); err != nil {
			return err
		}
		if n > 0 {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "this state already has an owner").
				WithRemedy("have an owner add the key: palyra operator add")
		}
		u := palyra.User{Principal: o.Principal, Role: o.Role, AddedAt: o.AddedAt, AddedBy: o.Principal}
		if err := r.insertUser(tx, u, nil); err != nil {
			return err
		}
		if err := insertOperator(tx, o, uid); err != nil {
			return err
		}
		return r.record(tx, palyra.OperatorAdded{Operator: o})
	})
	return o, err
}
