package canon

import (
	"errors"
	"fmt"
)

// ReadCanonical reads canonical bytes: what Decode accepts and nothing else. Raw of its values is canonical as well.
func (d *Doc) ReadCanonical(b string) error {
	d.nodes, d.order, d.texts = d.nodes[:0], d.order[:0], d.texts[:0]
	d.p, d.bare = parser{b: b}, true
	if len(b) > maxDoc {
		return errors.New("canon: the document is too long")
	}
	c := decoder{b: b}
	err := d.takeCanonical(&c, 0)
	if err == nil && c.i != len(b) {
		err = errRest
	}
	if err != nil {
		d.nodes = d.nodes[:0]
	}
	return err
}

// takeCanonical adds the value that stands next.
func (d *Doc) takeCanonical(c *decoder, depth int) (err error) {
	if depth > MaxDepth {
		return ErrDepth
	}
	if c.i >= len(c.b) {
		return errShort
	}
	at, tag := len(d.nodes), c.b[c.i]
	d.nodes = append(d.nodes, node{from: int32(c.i)})
	c.i++
	kind, from := Null, c.i-1
	switch tag {
	case 'z':
	case 't', 'f':
		kind = Bool
	case 'n':
		kind = Number
		s, e := c.number()
		from, err = c.i-len(s), e
	case 's':
		kind = String
		s, e := c.text()
		from, err = c.i-len(s), e
	case 'l':
		kind = List
		err = d.takeList(c, at, depth)
	case 'm':
		kind = Object
		err = d.takePairs(c, at, depth)
	default:
		err = fmt.Errorf("canon: unknown tag %q", tag)
	}
	n := &d.nodes[at]
	n.kind, n.from, n.to, n.next = kind, int32(from), int32(c.i), int32(len(d.nodes))
	return err
}

func (d *Doc) takeList(c *decoder, at, depth int) error {
	n, err := c.count()
	if err != nil {
		return err
	}
	d.nodes[at].size = int32(n)
	for range n {
		if err := d.takeCanonical(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *Doc) takePairs(c *decoder, at, depth int) error {
	n, err := c.count()
	if err != nil {
		return err
	}
	d.nodes[at].size = int32(n)
	last := ""
	for i := range n {
		k, err := c.key(i, last)
		if err != nil {
			return err
		}
		last = k
		d.nodes = append(d.nodes, node{kind: String, from: int32(c.i - len(k)), to: int32(c.i), next: int32(len(d.nodes)) + 1})
		if err := d.takeCanonical(c, depth+1); err != nil {
			return err
		}
	}
	d.nodes[at].order = int32(len(d.order))
	d.addKeys(at) // which are in order
	return nil
}
