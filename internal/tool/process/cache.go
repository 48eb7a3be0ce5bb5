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

// cache keeps the digests of recently used files. It is safe for concurrent use.
type cache struct {
	mu    sync.Mutex
	most  int
	order *list.List // of *entry, last used first
	byKey map[fileKey]*list.Element
}

type cacheEntry struct {
	key   fileKey
	value content
}

func newCache(most int) *cache {
	return &cache{most: most, order: list.New(), byKey: map[fileKey]*list.Element{}}
}

func (c *cache) get(k fileKey) (content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[k]
	if !ok {
		return content{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cacheEntry).value, true
}

func (c *cache) put(k fileKey, v content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[k]; ok {
		e.Value.(*cacheEntry).value = v
		c.order.MoveToFront(e)
		return
	}
	c.byKey[k] = c.order.PushFront(&cacheEntry{k, v})
	if c.order.Len() > c.most {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(*cacheEntry).key)
	}
}
