package undo

import "time"

// head is what is said of an entry before its changes, which may be many.
type head struct {
	workspace string
	at        time.Time
	paths     int64
	bytes     int64
}

// headCache has the heads that were read: an entry does not change while it is there.
type headCache struct{ known map[string]head }

func (c *headCache) read(k *Kept, name string) (head, error) {
	if h, ok := c.known[name]; ok {
		return h, nil
	}
	h, err := k.head(name)
	if err != nil {
		return h, err
	}
	if c.known == nil {
		c.known = map[string]head{}
	}
	c.known[name] = h
	return h, nil
}

// only forgets all but these.
func (c *headCache) only(names []string) {
	if len(c.known) <= len(names) {
		return
	}
	still := map[string]bool{}
	for _, n := range names {
		still[n] = true
	}
	for n := range c.known {
		if !still[n] {
			delete(c.known, n)
		}
	}
}
