// Package policy judges plans with Cedar.
//
// A Bundle is a set of policies, parsed, checked against the schema and indexed; an Engine judges requests with one
// bundle and one snapshot of the security configuration, and swaps both at once. What a call amounts to is below it
// (risk); above it a bundle's own tests (tables), what was in force (inforce) and calls on record judged again
// (replay).
//
// Cedar answers yes or no; the third answer comes from asking more than once: first without an approval, then with
// hypothetical ones from weak to strong (see ladder). The first that turns the answer is what the approval needs.
//
// Promises: default deny, forbid wins, and a policy that fails to evaluate makes the verdict deny, since Cedar
// would skip it and a broken forbid would turn into an allow. The index in front of Cedar never changes an answer.
// Every verdict names the policies behind it, with file and line.
//
// The package does not ask people, does not run anything and does not parse
// command lines. It is the one home of the Cedar library.
//
// Its words are those of docs/words.md.
package policy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/hostgroup"
	"palyra/internal/policy/entity"
)

// Config is what an Engine judges with.
//
// The snapshot's lists are allowlists: AllowedTools, Principals and Channels. An entry is a whole name, or a
// beginning followed by "*". An empty list lets nothing in.
type Config struct {
	Bundle   *Bundle
	Snapshot palyra.Snapshot        // its Bundle field is filled in by New
	Probed   func(palyra.Tier) bool // is the tier known to hold; nil: none is
	// Analyse reads what a plan's program would do; nil: nothing is known of any.
	Analyse func(palyra.Plan) palyra.Command
	// Project returns the policies of a workspace, see LoadProject; nil: no workspace has any. A call in a workspace
	// for which it fails is refused. Places are directories and files below the workspace that the call works in.
	Project func(workspace string, places ...string) (*Bundle, error)
	// Standing returns the roles that the access registry has for a principal and its owner; nil: no roles
	// are known. A call for which it fails is refused.
	Standing func(principal, owner palyra.Principal) (palyra.Standing, error)
	Groups   hostgroup.Set    // of hosts; nil: those that come with Palyra
	Now      func() time.Time // for requests that do not say when; nil: policies see no time
	Stop     func() bool      // ends a judgement early, which then denies; nil: none ends early
}

// Engine judges. Its methods may be called from many goroutines.
type Engine struct{ live atomic.Pointer[state] }

// state is what one judgement uses from beginning to end, however often the engine is swapped meanwhile.
type state struct {
	bundle     *Bundle
	snapshot   palyra.Snapshot
	digest     palyra.Digest
	tools      names
	principals names
	surfaces   names
	probed     func(palyra.Tier) bool
	command    func(palyra.Plan) palyra.Command
	project    func(string, ...string) (*Bundle, error)
	standing   func(palyra.Principal, palyra.Principal) (palyra.Standing, error)
	groups     hostgroup.Set
	now        func() time.Time
	stop       func() bool
	memory     *entity.Memory
	contexts   *entity.Kept[truths, cedar.Record]
	joined     *atomic.Pointer[Bundle] // with the workspace's policies that were asked for last
}

// New returns an Engine.
func New(c Config) (*Engine, error) {
	e := &Engine{}
	if err := e.Swap(c); err != nil {
		return nil, err
	}
	return e, nil
}

// Swap judges with c from the next request on. On an error the engine goes on with what it had.
func (e *Engine) Swap(c Config) error {
	if c.Bundle == nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy: no bundle")
	}
	s := c.Snapshot
	s.Bundle = c.Bundle.digest
	digest, err := s.Digest()
	if err != nil {
		return fmt.Errorf("policy: snapshot: %w", err)
	}
	if c.Groups == nil {
		if c.Groups, err = hostgroup.With(nil); err != nil {
			return err
		}
	}
	e.live.Store(&state{
		probed: c.Probed, command: c.Analyse, project: c.Project, standing: c.Standing, now: c.Now, stop: c.Stop, groups: c.Groups,
		joined: &atomic.Pointer[Bundle]{}, memory: &entity.Memory{}, contexts: &entity.Kept[truths, cedar.Record]{},
		bundle: c.Bundle, snapshot: s, digest: digest,
		tools: newNames(s.AllowedTools), principals: newNames(s.Principals), surfaces: newNames(s.Channels),
	})
	return nil
}

// Bundle returns the bundle in force.
func (e *Engine) Bundle() *Bundle { return e.live.Load().bundle }

// Snapshot returns the configuration in force, with the bundle's digest in it.
func (e *Engine) Snapshot() palyra.Snapshot { return e.live.Load().snapshot }

// names is an allowlist. The zero value holds nothing.
type names struct {
	whole    map[string]bool
	prefixes []string
}

func newNames(list []string) names {
	n := names{whole: make(map[string]bool, len(list))}
	for _, s := range list {
		if prefix, ok := strings.CutSuffix(s, "*"); ok {
			n.prefixes = append(n.prefixes, prefix)
		} else {
			n.whole[s] = true
		}
	}
	return n
}

func (n names) has(s string) bool {
	if n.whole[s] {
		return true
	}
	for _, p := range n.prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
