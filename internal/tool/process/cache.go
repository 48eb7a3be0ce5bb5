package process

import (
	"container/list"
	"sync"

	"palyra"
)

// fileKey stands for a file's content: as long as none of these fields changed, nobody has changed
// it who cannot write the file.
type fileKey struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

// content is the known content of a file.
type content struct {
	digest palyra.Digest
	head   string // the first bytes, as many as the kernel reads
}

// cache keeps what was used last. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	mu    sync.Mutex
	most  int
	order *list.List // of *cacheEntry, last used first
	byKey map[K]*list.Element
}

type cacheEntry[K comparable, V any] struct {
	key   K
	value V
}

func newCache[K comparable, V any](most int) *cache[K, V] {
	return &cache[K, V]{most: most, order: list.New(), byKey: map[K]*list.Element{}}
}

func (c *cache[K, V]) get(k K) (v V, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[k]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cacheEntry[K, V]).value, true
}

func (c *cache[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[k]; ok {
		e.Value.(*cacheEntry[K, V]).value = v
		c.order.MoveToFront(e)
		return
	}
	c.byKey[k] = c.order.PushFront(&cacheEntry[K, V]{k, v})
	if c.order.Len() > c.most {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(*cacheEntry[K, V]).key)
	}
}
