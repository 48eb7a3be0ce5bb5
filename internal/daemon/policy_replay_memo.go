package daemon

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/journal"
	"palyra/internal/run"
)

// maxMemo bounds the texts that a memo holds.
const maxMemo = 16 << 20

// planDomain is what plan digests are made under.
const planDomain = "plan/v1"

// memo reads JSON texts, each once while it is remembered.
type memo[T any] struct {
	decode func([]byte, *T) error
	mu     sync.Mutex
	known  map[string]*remembered[T]
	bytes  int
	last   int64
}

// remembered is a text that was read. Its number is of this text alone, and its
// digest that of a plan, if it is one.
type remembered[T any] struct {
	id    int64
	value T
	sum   palyra.Digest
}

func newMemo[T any](decode func([]byte, *T) error) *memo[T] {
	return &memo[T]{decode: decode, known: map[string]*remembered[T]{}}
}

// unjudged are the members of a plan that policy does not look at. They are most of
// it, and bound by the digest like everything else.
var unjudged = []string{"mounts", "inputs", "files", "seals", "limits"}

// readPlan reads of a plan what policy looks at.
func readPlan(raw []byte, p *palyra.Plan) error {
	return readMembers(raw, func(name string) bool { return !slices.Contains(unjudged, name) }, p)
}

func readTool(raw []byte, t *palyra.Tool) error { return json.Unmarshal(raw, t) }

// readMembers reads some members of an object.
func readMembers(raw []byte, wanted func(name string) bool, v any) error {
	some := make([]byte, 1, len(raw))
	some[0] = '{'
	whole := run.Members(raw, func(name string, value []byte) {
		if !wanted(name) {
			return
		}
		if len(some) > 1 {
			some = append(some, ',')
		}
		some = append(append(append(append(some, '"'), name...), '"', ':'), value...)
	})
	if !whole {
		return errors.New("daemon: not an object")
	}
	return json.Unmarshal(append(some, '}'), v)
}

// read returns what a text says.
func (m *memo[T]) read(raw []byte) (*remembered[T], error) {
	m.mu.Lock()
	r := m.known[string(raw)]
	m.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r = &remembered[T]{}
	if err := m.decode(raw, &r.value); err != nil {
		return nil, err
	}
	b, err := journal.Canonical(raw)
	if err != nil {
		return nil, err
	}
	r.sum = palyra.Digest(canon.Sum(planDomain, b))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	r.id = m.last
	if m.bytes += len(raw); m.bytes > maxMemo {
		clear(m.known)
		m.bytes = len(raw)
	}
	m.known[string(raw)] = r
	return r, nil
}
