package entity

import (
	"sync"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// Memory remembers entities. A nil Memory remembers nothing. Its methods may be called from many goroutines.
type Memory struct {
	callers Kept[[2]cedar.EntityUID, *Caller]
	tools   Kept[palyra.ToolName, *Callee]
	places  Kept[string, cedar.Entity]
	labels  Kept[string, Labels]
	words   Kept[commandWords, cedar.Value]
	runs    Kept[palyra.Executable, cedar.Value]
}

// most bounds what is kept of a kind: names come from callers, who must not fill the memory. When there are more,
// all are forgotten.
const most = 1024

// Kept is what is known of one kind, by what it is asked for with. The zero Kept knows nothing.
type Kept[K comparable, V any] struct {
	mu sync.RWMutex
	of map[K]V
}

// Get returns what is known by the key.
func (k *Kept[K, V]) Get(key K) (V, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	v, ok := k.of[key]
	return v, ok
}

// Put makes a value known.
func (k *Kept[K, V]) Put(key K, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= most {
		k.of = map[K]V{}
	}
	k.of[key] = v
}

// get returns what is known where that is still right, else what is made now.
func (k *Kept[K, V]) get(key K, right func(V) bool, newValue func() V) V {
	if v, ok := k.Get(key); ok && right(v) {
		return v
	}
	v := newValue()
	k.Put(key, v)
	return v
}
