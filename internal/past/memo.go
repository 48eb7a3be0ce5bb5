package past

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"sync"

	"palyra"
	"palyra/internal/canon"
)

// Bounds of a memo: the texts that it keeps, and the texts that it knows to have seen once.
const (
	maxMemo = 16 << 20
	maxOnce = 1 << 16
)

// memo reads JSON texts. A text that comes a second time is remembered; where every text differs, nothing is kept.
type memo[T any] struct {
	decode func(canon.Value, *T) error
	seed   maphash.Seed
	mu     sync.Mutex
	known  map[string]*remembered[T]
	once   map[uint64]struct{}
	bytes  int
	last   int64
}

// remembered is a text that was read. Its number is of this text alone, or 0 where
// it is not kept, and its digest that of a plan, if it is one.
type remembered[T any] struct {
	id    int64
	value T
	sum   palyra.Digest
}

func newMemo[T any](decode func(canon.Value, *T) error) *memo[T] {
	return &memo[T]{decode: decode, seed: maphash.MakeSeed(), known: map[string]*remembered[T]{}, once: map[uint64]struct{}{}}
}

func readTool(v canon.Value, t *palyra.Tool) error { return json.Unmarshal([]byte(v.Raw()), t) }

// readMembers reads some members of an object.
func readMembers(raw []byte, wanted func(name string) bool, v any) error {
	some := []byte{'{'}
	whole := canon.Members(raw, func(name string, value []byte) {
		if !wanted(name) {
			return
		}
		if len(some) > 1 {
			some = append(some, ',')
		}
		some = append(append(append(append(some, '"'), name...), '"', ':'), value...)
	})
	switch {
	case !whole:
		return errors.New("past: not an object")
	case len(some) == 1:
		return nil
	}
	return json.Unmarshal(append(some, '}'), v)
}

// read returns the value of a text.
func (m *memo[T]) read(raw []byte, s *scratch) (*remembered[T], error) {
	m.mu.Lock()
	r := m.known[string(raw)]
	m.mu.Unlock()
	if r != nil {
		return r, nil
	}
	text := string(raw)
	if err := s.doc.Read(text); err != nil {
		return nil, err
	}
	r = &remembered[T]{}
	if err := m.decode(s.doc.Root(), &r.value); err != nil {
		return nil, err
	}
	s.canonical = s.doc.AppendCanonical(s.canonical[:0])
	r.sum = palyra.PlanDigest(s.canonical)
	m.keep(text, r)
	return r, nil
}

// keep remembers a text if it came by before.
func (m *memo[T]) keep(text string, r *remembered[T]) {
	hash := maphash.String(m.seed, text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.once[hash]; !again {
		if len(m.once) >= maxOnce {
			clear(m.once)
		}
		m.once[hash] = struct{}{}
		return
	}
	m.last++
	r.id = m.last
	if m.bytes += len(text); m.bytes > maxMemo {
		clear(m.known)
		m.bytes = len(text)
	}
	m.known[text] = r
}

// scratch is memory to read texts in, for one reader at a time.
type scratch struct {
	doc       canon.Doc
	canonical []byte
}
