package canon

import (
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"
)

// Known reads JSON objects as encoding/json writes them, one after the other, and knows the members of earlier ones:
// one that stands byte for byte as it did before is compared with that and not read again. It accepts what Doc accepts,
// where there is neither white space between the members nor an escape in a name, and nothing else: whoever is refused
// asks a Doc. Its memory is bounded. A Known has one user at a time.
type Known[T any] struct {
	read    func(name string, v Value, kept bool) (T, error)
	within  func(name, text string, at int) (end int, ok bool)
	seed    maphash.Seed
	slots   map[string]*slot[T]
	first   *slot[T]
	bytes   int // of what is known
	orders  []nameOrder[T]
	members []KnownMember[T]
	doc     Doc
	fresh   []byte // canonical bytes of what was read now
}

// KnownMember is a member of an object that was read, until the next one is.
type KnownMember[T any] struct {
	Value     T
	slot      *slot[T]
	canonical []byte // its name and value
	from, to  int    // where in fresh those stand, if it has none of its own
}

// slot is the members of one name.
type slot[T any] struct {
	name string
	head string   // as it stands before the value
	next *slot[T] // whose members came after it
	all  []*variant[T]
	once [16]uint64 // hashes of texts that were read once
}

// variant is a member that is known.
type variant[T any] struct {
	text      string // with its name
	value     T
	canonical []byte
}

// nameOrder is names as they followed one another, and where each stands in byte order.
type nameOrder[T any] struct {
	slots  []*slot[T]
	sorted []int
}

// Bounds of a Known.
const (
	knownText     = 64 << 10
	knownBytes    = 4 << 20
	knownSlots    = 256
	knownVariants = 8
	knownOrders   = 8
)

// errUnlike is what a Known cannot read.
var errUnlike = errors.New("canon: not an object that is written plainly")

// NewKnown returns a Known whose members are what read makes of them, some to be kept. It must hold nothing of a value
// but copies. Members may be read by within, which returns where they end; nil: none is.
func NewKnown[T any](
	read func(name string, v Value, kept bool) (T, error), within func(name, text string, at int) (end int, ok bool),
) *Known[T] {
	return &Known[T]{read: read, within: within, seed: maphash.MakeSeed(), slots: map[string]*slot[T]{}}
}

// Read reads the object that begins there in a text, with members at a depth, and returns where it ends.
func (k *Known[T]) Read(text string, at, depth int) (end int, err error) {
	k.members, k.fresh = k.members[:0], k.fresh[:0]
	if at >= len(text) || text[at] != '{' || len(text) > maxDoc {
		return 0, errUnlike
	}
	if k.bytes > knownBytes || len(k.slots) > knownSlots {
		clear(k.slots)
		k.first, k.orders, k.bytes = nil, nil, 0
	}
	if strings.HasPrefix(text[at+1:], "}") {
		return at + 2, nil
	}
	to := &k.first
	for i := at + 1; len(k.members) < knownSlots; i++ {
		s, err := k.slotAt(text, i, *to)
		if err != nil {
			return 0, err
		}
		*to, to = s, &s.next
		if i, err = k.member(s, text, i, depth); err != nil {
			return 0, err
		}
		switch {
		case i >= len(text):
			return 0, errUnlike
		case text[i] == '}':
			return i + 1, k.order()
		case text[i] != ',':
			return 0, errUnlike
		}
	}
	return 0, errUnlike
}

// slotAt is the slot of the name that stands there; likely is the one that stood there before.
func (k *Known[T]) slotAt(text string, i int, likely *slot[T]) (*slot[T], error) {
	if likely != nil && strings.HasPrefix(text[i:], likely.head) {
		return likely, nil
	}
	if i >= len(text) || text[i] != '"' {
		return nil, errUnlike
	}
	n := ordinary(text[i+1:])
	if !strings.HasPrefix(text[i+1+n:], `":`) || !utf8.ValidString(text[i+1:i+1+n]) {
		return nil, errUnlike
	}
	s := k.slots[text[i+1:i+1+n]]
	if s == nil {
		s = &slot[T]{head: strings.Clone(text[i : i+n+3])}
		s.name = s.head[1 : n+1]
		k.slots[s.name] = s
		k.bytes += len(s.head)
	}
	return s, nil
}

// member reads the member that stands there, and returns where it ends.
func (k *Known[T]) member(s *slot[T], text string, i, depth int) (end int, err error) {
	rest := text[i:]
	for _, v := range s.all {
		if n := len(v.text); strings.HasPrefix(rest, v.text) && n < len(rest) && (rest[n] == ',' || rest[n] == '}') {
			k.members = append(k.members, KnownMember[T]{Value: v.value, slot: s, canonical: v.canonical})
			return i + n, nil
		}
	}
	at := i + len(s.head)
	if k.within != nil {
		if end, ok := k.within(s.name, text, at); ok {
			k.members = append(k.members, KnownMember[T]{slot: s})
			return end, nil
		}
	}
	if end, err = k.doc.readPart(text, at, depth); err != nil {
		return 0, err
	}
	if k.again(s, text[i:end]) {
		v, err := k.learn(s, text[i:end], depth)
		if err != nil {
			return 0, err
		}
		k.members = append(k.members, KnownMember[T]{Value: v.value, slot: s, canonical: v.canonical})
		return end, nil
	}
	value, err := k.read(s.name, k.doc.Root(), false)
	if err != nil {
		return 0, err
	}
	from := len(k.fresh)
	if k.within == nil {
		k.fresh = k.doc.AppendCanonical(appendText(k.fresh, 's', s.name))
	}
	k.members = append(k.members, KnownMember[T]{Value: value, slot: s, from: from, to: len(k.fresh)})
	return end, nil
}

// again reports whether a member was probably read before; a wrong yes costs memory alone.
func (k *Known[T]) again(s *slot[T], text string) bool {
	if len(text) > knownText {
		return false
	}
	hash := maphash.String(k.seed, text)
	was := &s.once[hash%uint64(len(s.once))]
	if *was == hash {
		return true
	}
	*was = hash
	return false
}

// learn keeps a member.
func (k *Known[T]) learn(s *slot[T], text string, depth int) (*variant[T], error) {
	v := &variant[T]{text: strings.Clone(text)}
	if _, err := k.doc.readPart(v.text, len(s.head), depth); err != nil {
		return nil, err
	}
	var err error
	if v.value, err = k.read(s.name, k.doc.Root(), true); err != nil {
		return nil, err
	}
	v.canonical = k.doc.AppendCanonical(appendText(nil, 's', s.name))
	k.bytes += len(v.text) + len(v.canonical)
	if len(s.all) >= knownVariants { // the oldest
		k.bytes -= len(s.all[0].text) + len(s.all[0].canonical)
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, v)
	return v, nil
}

// order finds the order of the names that were read, and refuses one that is repeated.
func (k *Known[T]) order() error {
	same := func(o nameOrder[T]) bool {
		return slices.EqualFunc(o.slots, k.members, func(s *slot[T], m KnownMember[T]) bool { return s == m.slot })
	}
	if i := slices.IndexFunc(k.orders, same); i >= 0 {
		k.orders[0], k.orders[i] = k.orders[i], k.orders[0]
		return nil
	}
	var o nameOrder[T]
	for i, m := range k.members {
		o.slots, o.sorted = append(o.slots, m.slot), append(o.sorted, i)
	}
	slices.SortFunc(o.sorted, func(a, b int) int { return strings.Compare(o.slots[a].name, o.slots[b].name) })
	for i := 1; i < len(o.sorted); i++ {
		if o.slots[o.sorted[i-1]] == o.slots[o.sorted[i]] {
			return ErrRepeated
		}
	}
	if len(k.orders) >= knownOrders {
		k.orders = nil
	}
	k.orders = slices.Insert(k.orders, 0, o)
	return nil
}

// Members are those of the object that was read.
func (k *Known[T]) Members() []KnownMember[T] { return k.members }

// AppendCanonical writes the canonical bytes of the object that was read. Where within reads members there are none.
func (k *Known[T]) AppendCanonical(b []byte) []byte {
	b = appendCount(b, 'm', len(k.members))
	if len(k.members) == 0 {
		return b
	}
	for _, i := range k.orders[0].sorted {
		if m := &k.members[i]; m.canonical != nil {
			b = append(b, m.canonical...)
		} else {
			b = append(b, k.fresh[m.from:m.to]...)
		}
	}
	return b
}
