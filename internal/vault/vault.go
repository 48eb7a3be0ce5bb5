// Package vault keeps secrets so that they can be used and need not be seen.
//
// Each version of a secret is sealed under a data key of its own, which is wrapped under the vault key. That key is in
// nobody's table: a keeper holds it, such as a key file, a file under a passphrase, or the desktop's Secret Service.
// It is not derived from any other key of the system. A manifest of everything the vault holds is authenticated under
// the same key, with a counter that the journal has too: what is flipped, swapped, cut, or put back from an earlier
// time is noticed, by name.
//
// A keeper that is locked or gone refuses what needs it, and nothing else.
//
// Promises: a value leaves as palyra.Secret only; no error, log or event has one in it; a change is there whole or not
// at all, whenever the process ends.
//
// Its words are those of docs/words.md.
package vault

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

// Limits of a vault.
const (
	MaxValue    = 64 << 10 // bytes of a value
	MaxSecrets  = 10_000   // versions of secrets, together
	MaxVersions = 16       // of one secret; older ones go when one more is put
)

//go:embed schema
var schema embed.FS

// Schema returns the part's tables.
func Schema() store.Schema { return store.SchemaOf("vault", schema) }

// KeyKeeper holds vault keys, each under an id. What it returns as Denied or Unavailable is told to people.
type KeyKeeper = interface {
	// Load returns a key. The passphrase is empty where nobody gave one.
	Load(ctx context.Context, id string, passphrase palyra.Secret) (palyra.Secret, error)
	// Save keeps a key; when it returns, the key is there after a power cut too.
	Save(ctx context.Context, id string, key, passphrase palyra.Secret) error
	// Forget forgets a key, or one that it never had.
	Forget(ctx context.Context, id string) error
}

// Config is what a vault stands on.
type Config struct {
	DB      *store.DB
	Journal Record
	Policy  Policy
	Keepers map[string]KeyKeeper // by name
	First   string               // the keeper of a vault that begins
	// Hosts returns the hosts of a binding in their one spelling, and refuses those that nobody may reach.
	Hosts func([]string) ([]string, error)
	// Inspect completes the binding of a key: which key it is, and its host keys in their one spelling. It refuses a value
	// that is no key.
	Inspect func(ctx context.Context, b secrets.Binding, value palyra.Secret) (secrets.Binding, error)
	NewID   func() palyra.ID
	Now     func() time.Time
	Log     *slog.Logger
	Known   Known // may be nil
}

// Known is told the values that are to be masked in whatever leaves. It keeps none of them.
type Known interface {
	// Set makes the values of names the ones that are known.
	Set(known iter.Seq2[string, []byte])
	// Add makes more of them known.
	Add(known iter.Seq2[string, []byte])
}

// Record is the journal, where changes are on record.
type Record interface {
	store.Recorder
	// Bodies calls f with the body of every entry of a kind, in order.
	Bodies(ctx context.Context, kind string, f func(body []byte) error) error
}

// Policy says who may do what with which secret.
type Policy interface {
	// AuthorizeAction reports whether an action is permitted, and which policies said so. The id of a secret is its name,
	// a line end and its scope.
	AuthorizeAction(ctx context.Context, p palyra.Principal, roles []palyra.Role, action, resourceType, resourceID string,
	) (bool, []palyra.PolicyHit)
}

// permit refuses what policy does not permit, and a secret that is another's.
func (v *Vault) permit(ctx context.Context, by secrets.By, action string, scope secrets.Scope, name string) error {
	if err := secrets.CheckName(scope, name); err != nil {
		return err
	}
	if whose, others := others(scope, by.Principal); others {
		return palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the secret is for %s only", palyra.Clip(whose, 128)).
			WithRemedy("have them do it")
	}
	return v.judge(ctx, by, action, scope, name)
}

// others reports whether a secret is for somebody else only, and for whom.
func others(scope secrets.Scope, p palyra.Principal) (whose string, ok bool) {
	whose, ok = strings.CutPrefix(string(scope), "principal:")
	return whose, ok && whose != string(p)
}

// judge refuses what policy does not permit.
func (v *Vault) judge(ctx context.Context, by secrets.By, action string, scope secrets.Scope, name string) error {
	ok, hits := v.Policy.AuthorizeAction(ctx, by.Principal, []palyra.Role{by.Role}, action, "Secret", name+"\n"+string(scope))
	if ok {
		return nil
	}
	e := palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "policy does not permit %s on %s to %s", action, name, by.Principal).
		WithRemedy("an operator can permit it in the policy bundle: see 'palyra policy'")
	for _, h := range hits {
		if h.Remedy != "" {
			e = e.WithRemedy("%s", h.Remedy)
		}
	}
	return e
}

// counter returns the counter of the last change on record; 0: there is none.
func (v *Vault) counter(ctx context.Context) (last int64, err error) {
	err = v.Journal.Bodies(ctx, palyra.VaultChanged{}.Kind(), func(body []byte) error {
		var e palyra.VaultChanged
		if err := json.Unmarshal(body, &e); err != nil {
			return err
		}
		last = max(last, e.Counter)
		return nil
	})
	return last, err
}

// Vault is the secrets of a state. Its methods may be called from many goroutines.
type Vault struct {
	Config
	mu   sync.RWMutex // held by a change from beginning to end, and by whoever reads
	held *held        // nil: locked
	told int          // values that Known was told of, and perhaps need not know any more

	recipients recipients
}

// held is what an open vault knows. It does not change: a change of the vault makes another.
type held struct {
	manifest
	keys derived
	listed
	anew bool // it takes the place of whatever the tables have

	sorted sync.Once
	lasts  map[[2]string]int64 // the last versions, by scope and name, once somebody asks
}

// listed is what a manifest lists.
type listed struct {
	leaves     map[ident]leaf
	bindings   map[string]secrets.Binding
	recipients map[string]string // for whom something is sealed without the vault's key
}

func (l listed) clone() listed {
	return listed{maps.Clone(l.leaves), maps.Clone(l.bindings), maps.Clone(l.recipients)}
}

// newHeld is an open vault that has nothing.
func newHeld(m manifest, keys derived) *held {
	return &held{manifest: m, keys: keys, listed: listed{map[ident]leaf{}, map[string]secrets.Binding{}, map[string]string{}}}
}

// last is the last version of a secret; 0: there is none.
func (h *held) last(scope, name string) int64 {
	h.sorted.Do(func() {
		h.lasts = make(map[[2]string]int64, len(h.leaves))
		for i := range h.leaves {
			key := [2]string{i.scope, i.name}
			h.lasts[key] = max(h.lasts[key], i.version)
		}
	})
	return h.lasts[[2]string{scope, name}]
}

// New returns a vault. It opens nothing: the first use does.
func New(c Config) (*Vault, error) {
	if c.DB == nil || c.Journal == nil || c.Policy == nil || c.Keepers[c.First] == nil || c.Hosts == nil || c.Inspect == nil ||
		c.NewID == nil || c.Now == nil ||
		c.Log == nil {
		return nil, errors.New("vault: new: a part is missing")
	}
	return &Vault{Config: c}, nil
}

// Unlock opens the vault with a passphrase, for a keeper that wants one.
func (v *Vault) Unlock(ctx context.Context, passphrase palyra.Secret) error {
	defer v.forgetRecipients()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lock()
	_, err := v.open(ctx, passphrase)
	return err
}

// Lock forgets the vault key until somebody needs it again.
func (v *Vault) Lock() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lock()
}

func (v *Vault) lock() {
	if v.held != nil {
		v.held.keys.destroy()
		v.held = nil
	}
}

// errNone means that the vault has not begun.
var errNone = errors.New("vault: there is none")

// open returns the open vault, and opens it where it is not. v.mu is held.
func (v *Vault) open(ctx context.Context, passphrase palyra.Secret) (*held, error) {
	if v.held != nil {
		return v.held, nil
	}
	m, on, err := v.load(ctx)
	if err != nil {
		return nil, err
	}
	keeper := v.Keepers[m.keeper]
	if keeper == nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "the vault's key is held by %s, which is not there", m.keeper).
			WithRemedy("start the daemon where that keeper is, or begin anew from an export: palyra vault import --anew FILE")
	}
	key, err := keeper.Load(ctx, m.key, passphrase)
	if err != nil {
		return nil, err
	}
	defer key.Destroy()
	keys, err := derive(key)
	if err != nil {
		return nil, err
	}
	if err := v.verify(ctx, m, on.leaves, keys); err != nil {
		keys.destroy()
		return nil, err
	}
	h := &held{manifest: m, keys: keys, listed: on}
	if err := v.tellAll(ctx, h); err != nil {
		keys.destroy()
		return nil, err
	}
	v.held = h
	v.compareUsed(ctx, h)
	v.tidy(ctx)
	return v.held, nil
}

// startPatience is how long a start waits for a keeper that does not answer; whoever needs a secret later asks it again.
const startPatience = 10 * time.Second

// Open opens the vault if it can, so that its values are known before anything leaves. Why it cannot is in Status: a
// locked vault lends nothing.
func (v *Vault) Open(ctx context.Context) {
	ctx, done := context.WithTimeout(ctx, startPatience)
	defer done()
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := v.open(ctx, palyra.Secret{}); err != nil && !errors.Is(err, errNone) {
		v.Log.Warn("the vault is not open", "err", err)
	}
}

// verify checks what was read against the key and the journal.
func (v *Vault) verify(ctx context.Context, m manifest, leaves map[ident]leaf, keys derived) error {
	if !m.authentic(leaves, keys) {
		return damaged("the list of what it holds does not match its seal: a secret was changed, removed or put back outside of Palyra, " +
			"or the keeper has another key")
	}
	counter, err := v.counter(ctx)
	if err != nil {
		return fmt.Errorf("vault: open: %w", err)
	}
	if counter != m.counter {
		return damaged(fmt.Sprintf("it is at change %d, and the journal at %d: an earlier one was put back", m.counter, counter))
	}
	return nil
}

// damaged is the error of a vault that somebody changed.
func damaged(why string) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonVaultDamaged, "the vault is not as Palyra left it: %s", why).
		WithRemedy("find out who can write to the state; restore a backup of it, or begin anew from an export: palyra vault import --anew FILE")
}
