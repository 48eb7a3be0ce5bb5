package process

import (
	"fmt"
	"sync"
	"testing"

	"palyra"
)

func TestCacheForgetsTheOldest(t *testing.T) {
	c := newCache[fileKey, content](2)
	key := func(n uint64) fileKey { return fileKey{ino: n} }
	c.put(key(1), content{head: "1"})
	c.put(key(2), content{head: "2"})
	if v, ok := c.get(key(1)); !ok || v.head != "1" {
		t.Error(v, ok)
	}
	c.put(key(3), content{head: "3"}) // 2 was used longest ago
	if _, ok := c.get(key(1)); !ok {
		t.Error("the one just used was forgotten")
	}
	c.put(key(1), content{head: "new"})
	for n, want := range map[uint64]string{1: "new", 2: "", 3: "3"} {
		if v, _ := c.get(key(n)); v.head != want {
			t.Errorf("%d: %q", n, v.head)
		}
	}
	if len(c.byKey) != 2 || c.order.Len() != 2 {
		t.Errorf("%d, %d", len(c.byKey), c.order.Len())
	}
}

// Each part of the key keeps files apart.
func TestCacheKey(t *testing.T) {
	c := newCache[fileKey, content](10)
	c.put(fileKey{1, 2, 3, 4, 5}, content{})
	for _, k := range []fileKey{{9, 2, 3, 4, 5}, {1, 9, 3, 4, 5}, {1, 2, 9, 4, 5}, {1, 2, 3, 9, 5}, {1, 2, 3, 4, 9}} {
		if _, ok := c.get(k); ok {
			t.Errorf("%+v is another file", k)
		}
	}
}

func TestCacheIsSafe(t *testing.T) {
	c := newCache[fileKey, content](8)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				k := fileKey{ino: uint64((i * (g + 1)) % 16)}
				want := palyra.Digest(fmt.Sprint(k.ino))
				if v, ok := c.get(k); ok && v.digest != want {
					t.Errorf("%d: %s", k.ino, v.digest)
				}
				c.put(k, content{digest: want})
			}
		})
	}
	wg.Wait()
	if c.order.Len() > 8 || len(c.byKey) != c.order.Len() {
		t.Errorf("%d, %d", c.order.Len(), len(c.byKey))
	}
}
