// Package registry keeps installed skills: whose keys are trusted, which skill stands where, what each was granted.
//
// Words: a skill is installed from a package into quarantine, becomes active when an operator enables it, and goes back to
// quarantine when an operator says so, when an update asks for more, or when its package is not what it was. A publisher is
// a key that operators trust, by a name; a skill is pinned to the publisher and key it first came from.
//
// Promises. Nothing is installed that was not signed, with every byte of it, by a key that is trusted at that moment. An
// update changes neither publisher nor key, is not older, and asks for nothing more unless the operator says so; what it asks
// for beyond what was granted is not there until somebody enables it again. A package is verified, and its publisher looked
// up, each time it is loaded. A key that is not trusted any more takes all its skills with it, at once. Every change is
// journaled in the transaction that makes it, with all that is known of the skill from then on. Calls under way of a skill that
// is taken away, or granted less, are ended, and are over when whoever did that is answered.
//
// What it does not do. It does not judge calls. Of modules it has the runtime say what they import and export before they are
// installed, and nothing more: a signed skill may still be bad. It is held by what it was granted.
//
// Its words are those of docs/words.md.
package registry

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"sync"
	"time"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/store"
	"palyra/internal/wasm"
)

//go:embed schema
var schema embed.FS

// Schema returns the part's tables.
func Schema() store.Schema { return store.SchemaOf("skill", schema) }

// Catalog is where tools are offered.
type Catalog interface {
	// Usable refuses a tool that cannot be offered because its schema is not valid.
	Usable(t palyra.Tool) error
	// Offer replaces the tools of a group; it refuses names that others have.
	Offer(group string, tools []palyra.Tool) error
}

// Policy says who may do what with which skill.
type Policy interface {
	// AuthorizeAction reports whether an action is permitted, and which policies said so.
	AuthorizeAction(ctx context.Context, p palyra.Principal, roles []palyra.Role, action, resourceType, resourceID string,
	) (bool, []palyra.PolicyHit)
}

// Config wires a Registry.
type Config struct {
	DB      *store.DB
	Journal store.Recorder
	Catalog Catalog
	Policy  Policy
	Runtime wasm.Runner // nil: no module runs
	// Host does what the modules of a skill ask for in a call; nil: nothing is done for them.
	Host    func(c *palyra.Call, skill string) wasm.Host
	Scripts Scripts // nil: no script runs
	// Forget removes what the modules of a skill keep; nil: they keep nothing.
	Forget func(tx *store.Tx, skill string) error
	Now    func() time.Time
	Log    *slog.Logger
}

// The most that there can be.
const (
	maxSkills     = 64
	maxPublishers = 256
)

// removed is the state of a row that only says whose skill an id is.
const removed skill.State = "removed"

// daemonItself is who changes what nobody asked for: a package that is damaged.
const daemonItself palyra.Principal = "service:palyrad"

// Registry is the installed skills.
type Registry struct {
	Config

	change sync.Mutex // one change at a time
	mu     sync.Mutex // guards the fields below; leaf lock
	known  map[string]*skill.Skill
	keys   map[string]skill.Publisher                 // by key id
	sums   map[palyra.Digest]map[string]palyra.Digest // of modules, by their package

	running map[*underway]bool // calls
}

// New reads what is installed, verifies every active skill and offers its tools. One that is not what it was is put into
// quarantine, and the daemon goes on.
func New(ctx context.Context, c Config) (*Registry, error) {
	if c.DB == nil || c.Journal == nil || c.Catalog == nil || c.Policy == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("skills: new: a part is missing")
	}
	r := &Registry{
		Config: c, known: map[string]*skill.Skill{}, keys: map[string]skill.Publisher{},
		sums: map[palyra.Digest]map[string]palyra.Digest{}, running: map[*underway]bool{},
	}
	all, err := r.loadAll(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if err := r.begin(ctx, s); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// begin takes a skill in as it stands in its row.
func (r *Registry) begin(ctx context.Context, s skill.Skill) error {
	p, err := r.read(ctx, s)
	if err == nil && p.Manifest.ID == s.ID && p.Manifest.Version == s.Version && p.Manifest.Publisher == s.Publisher {
		s.Manifest = p.Manifest
	}
	r.known[s.ID] = &s
	switch {
	case s.State != skill.Active && err != nil && s.State != removed:
		s.Why = palyra.AsError(err).Text
		return nil
	case s.State != skill.Active:
		return nil
	}
	if _, err = r.open(ctx, s); err == nil {
		if err = r.offer(s); err == nil {
			return nil
		}
	}
	r.Log.Error("a skill is not what it was, and is in quarantine", "skill", s.ID, "error", err)
	return r.put(ctx, "quarantined", s, func(n *skill.Skill) { n.State, n.Why = skill.Quarantined, palyra.AsError(err).Text },
		skill.By{Principal: daemonItself})
}

// Find returns an installed skill.
func (r *Registry) Find(id string) (skill.Skill, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.known[id]; s != nil && s.State != removed {
		return *s, nil
	}
	return skill.Skill{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no skill %q", palyra.Clip(id, 64)).
		WithRemedy("see 'palyra skills list'")
}

// permit refuses what policy does not permit.
func (r *Registry) permit(ctx context.Context, by skill.By, id string) error {
	ok, _ := r.Policy.AuthorizeAction(ctx, by.Principal, []palyra.Role{by.Role}, "skill.install", "Skill", id)
	if ok {
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonPolicyDenied, "policy does not let %s change the skill %s",
		palyra.Clip(string(by.Principal), 64), palyra.Clip(id, 64)).
		WithRemedy("have an owner permit skill.install for you, or do it")
}
