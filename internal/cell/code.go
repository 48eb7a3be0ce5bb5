package cell

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
)

// A Spec is read twice between an order and the program, so it (and a Room) is not JSON but a plain sequence of its
// fields: numbers as varints, everything else behind its length. One walk over the fields, spec, both writes and
// reads, so that the two cannot differ. Bytes left over after reading are an error.

// coder writes to out or, with reading, reads from in.
type coder struct {
	reading bool
	in, out []byte
	err     error
}

var errShort = errors.New("cell: a document cut short")

// encodeSpec returns s as bytes.
func encodeSpec(s *Spec) []byte {
	c := coder{out: make([]byte, 0, 4096+len(s.Filter))}
	c.spec(s)
	return c.out
}

// DecodeSpec reads a Spec and checks it.
func DecodeSpec(b []byte) (Spec, error) {
	if len(b) > MaxSpec {
		return Spec{}, fmt.Errorf("cell: spec: %d bytes, more than %d", len(b), MaxSpec)
	}
	var s Spec
	c := coder{reading: true, in: b}
	c.spec(&s)
	if err := c.end(); err != nil {
		return Spec{}, err
	}
	if err := s.Check(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// end returns the error of reading a document.
func (c *coder) end() error {
	if c.err == nil && len(c.in) > 0 {
		return fmt.Errorf("cell: a document with %d bytes too many", len(c.in))
	}
	return c.err
}

// version comes first: nothing else of another version is understood.
func (c *coder) version(v *int) bool {
	c.int(v)
	if c.reading && c.err == nil && *v != Version {
		c.fail(fmt.Errorf("cell: version %d, this cell speaks %d", *v, Version))
	}
	return c.err == nil
}

// spec walks all fields.
func (c *coder) spec(s *Spec) {
	if !c.version(&s.Version) {
		return
	}
	c.string(&s.Path)
	c.bool(&s.Sealed)
	c.bool(&s.Cover)
	list(c, &s.Argv, (*coder).string)
	list(c, &s.Env, (*coder).string)
	c.string(&s.Cwd)
	c.identity(&s.Identity)
	c.bool(&s.Terminal)
	c.rlimits(&s.Rlimits)
	c.int(&s.Nice)
	c.landlock(&s.Landlock)
	c.bytes(&s.Filter)
	c.watch(&s.Watch)
}

func (c *coder) rlimits(all *[]Rlimit) {
	list(c, all, func(c *coder, r *Rlimit) { c.int(&r.Resource); c.uint64(&r.Value) })
}

func (c *coder) landlock(l *Landlock) {
	c.uint64(&l.FS)
	c.uint64(&l.Net)
	c.uint64(&l.Scoped)
	list(c, &l.Rules, func(c *coder, r *Rule) { c.string(&r.Path); c.uint64(&r.Access); c.bool(&r.Optional); c.bool(&r.Plain) })
}

func (c *coder) identity(p **Identity) {
	present := *p != nil
	c.bool(&present)
	if !present || c.err != nil {
		return
	}
	if c.reading {
		*p = new(Identity)
	}
	c.int(&(*p).UID)
	c.int(&(*p).GID)
}

func (c *coder) watch(w *Watch) {
	for _, v := range []*int64{&w.EveryMS, &w.Memory, &w.Processes, &w.CPUMS, &w.Ceiling, &w.Disk} {
		c.int64(v)
	}
	list(c, &w.Disks, (*coder).string)
	n := &w.Counters
	for _, v := range []*string{&n.OOM, &n.PidsMax, &n.PeakBytes, &n.PeakPids, &n.CPUNanos, &n.CPUMicros} {
		c.string(v)
	}
}

func (c *coder) fail(err error) {
	c.err = cmp.Or(c.err, err)
	c.in = nil
}

func (c *coder) uint64(v *uint64) {
	if !c.reading {
		c.out = binary.AppendUvarint(c.out, *v)
		return
	}
	n, size := binary.Uvarint(c.in)
	if size <= 0 {
		c.fail(errShort)
		return
	}
	*v, c.in = n, c.in[size:]
}

func (c *coder) int64(v *int64) {
	n := uint64(*v)<<1 ^ uint64(*v>>63) // small numbers of either sign are short
	c.uint64(&n)
	if c.reading {
		*v = int64(n>>1) ^ -int64(n&1)
	}
}

func (c *coder) int(v *int) {
	n := int64(*v)
	if c.int64(&n); c.reading {
		*v = int(n)
	}
}

func (c *coder) bool(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	c.uint64(&n)
	if n > 1 {
		c.fail(errors.New("cell: neither true nor false"))
	}
	*v = n == 1
}

// length walks the length of a list whose parts take at least a byte each, so that the decoded
// value can never be larger than the encoded one.
func (c *coder) length(now int) int {
	n := uint64(now)
	c.uint64(&n)
	if c.reading && n > uint64(len(c.in)) {
		c.fail(errShort)
		return 0
	}
	return int(n)
}

func (c *coder) bytes(v *[]byte) {
	n := c.length(len(*v))
	if !c.reading {
		c.out = append(c.out, *v...)
		return
	}
	if n > 0 {
		*v, c.in = append([]byte(nil), c.in[:n]...), c.in[n:]
	}
}

func (c *coder) string(v *string) {
	n := c.length(len(*v))
	if !c.reading {
		c.out = append(c.out, *v...)
		return
	}
	*v, c.in = string(c.in[:n]), c.in[n:]
}

// list walks a slice with each for its elements.
func list[T any](c *coder, v *[]T, each func(*coder, *T)) {
	n := c.length(len(*v))
	if c.reading && n > 0 {
		*v = make([]T, n)
	}
	for i := range *v {
		if c.err != nil {
			return
		}
		each(c, &(*v)[i])
	}
}
