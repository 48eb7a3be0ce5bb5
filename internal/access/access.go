// Package access knows who may do what: operators by their signing keys, agents
// by their tokens, roles by their permissions, and which signatures were used.
//
// Words: an operator is a person's key with a role; an agent is a named caller
// with an owner and a token; an intent is one signed request.
//
// Promises: every change is journaled in the transaction that makes it; a
// signature counts once, also across a restart and a clock that was set back;
// a removed key or token ends at once; the last owner cannot be removed; nobody
// but an owner makes or unmakes one; a name of an agent is never given twice,
// because grants outlive agents.
//
// The package does not read headers or sockets: the doors do, and hand in what
// they found.
package access

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"sync"
	"time"

	"palyra"
	"palyra/internal/store"
)

//go:embed schema
var schema embed.FS

// Schema returns the part's tables.
func Schema() store.Schema {
	sub, _ := fs.Sub(schema, "schema") // a valid constant path: it cannot fail
	return store.Schema{Part: "access", FS: sub}
}

// Recorder journals an event inside a transaction.
type Recorder interface {
	// Append adds the event; it is durable when the transaction is.
	Append(tx *store.Tx, e palyra.Event) (palyra.Position, error)
}

// Config wires a Registry.
type Config struct {
	DB      *store.DB
	Journal Recorder
	StateID string // the audience that signatures must name
	Now     func() time.Time
}

// Registry is the access registry.
type Registry struct {
	Config

	mu     sync.Mutex // guards pruned
	pruned time.Time
}

// New returns a Registry.
func New(c Config) (*Registry, error) {
	if c.DB == nil || c.Journal == nil || c.StateID == "" || c.Now == nil {
		return nil, errors.New("access: new: a part is missing")
	}
	return &Registry{Config: c}, nil
}

// record journals e in tx.
func (r *Registry) record(tx *store.Tx, e palyra.Event) error {
	_, err := r.Journal.Append(tx, e)
	return err
}

// signer returns the operator behind a signature, as of tx.
func signer(tx *store.Tx, sig palyra.Signature) (palyra.Operator, error) {
	op, err := operator(tx, sig.Intent.KeyID)
	if err != nil {
		return palyra.Operator{}, err
	}
	if !op.RemovedAt.IsZero() {
		return palyra.Operator{}, unknownKey()
	}
	return op, nil
}

// moment turns a column into a time; 0 is none.
func moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// AddFirstOwner makes the first operator of an empty registry an owner. uid is
// the user that the daemon runs as, whose unsigned requests may look around as
// this owner.
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
		if err := insertOperator(tx, o, uid); err != nil {
			return err
		}
		return r.record(tx, palyra.OperatorAdded{Operator: o})
	})
	return o, err
}
