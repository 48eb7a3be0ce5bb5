package past

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"palyra"
	"palyra/internal/canon"
)

// Bounds of what is remembered: the tools, and the plans that are known to have been seen once.
const (
	maxTools = 16 << 20 // of their texts
	maxOnce  = 1 << 16
)

// tools are those that were read, by their JSON. Each has a number that is of this text alone.
type tools struct {
	mu    sync.Mutex
	known map[string]numberedTool
	bytes int
	last  int64
}

// numberedTool is a tool with its number.
type numberedTool struct {
	palyra.Tool
	id int64
}

// read returns the tool of a text.
func (m *tools) read(raw []byte) (numberedTool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.known[string(raw)]; ok {
		return t, nil
	}
	var t numberedTool
	if err := json.Unmarshal(raw, &t.Tool); err != nil {
		return t, err
	}
	if m.bytes += len(raw); m.known == nil || m.bytes > maxTools {
		m.known, m.bytes = map[string]numberedTool{}, len(raw)
	}
	m.last++
	t.id = m.last
	m.known[string(raw)] = t
	return t, nil
}

// once are plans that were seen, by the beginnings of their digests. It may have forgotten one; that it knows one that
// was not seen costs memory and changes no answer.
type once [maxOnce]atomic.Uint64

// again reports whether a plan was probably seen before.
func (o *once) again(sum palyra.Digest) bool {
	var n uint64
	for _, c := range []byte(sum[max(0, len(sum)-16):]) { // hex digits
		n = n<<4 | uint64(c&15+9*(c>>6))
	}
	return o[n%maxOnce].Swap(n) == n && n != 0
}

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
