package mask

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
)

// window is how many bytes at the beginning of a form are looked for everywhere. No form is shorter.
const window = Least

// form is one way in which a value is written, without it.
type form struct {
	start  uint64 // hash of the first window
	probe  uint32 // of the hash of the window at offset: texts that begin alike mostly differ there
	sum    [16]byte
	length uint32
	offset uint32
	mark   uint32 // what takes its place, by its number
}

// table is what is known at a time. It does not change once it is finished.
//
// A text is looked through by a cyclic polynomial over a window, with random numbers for bytes. Two filters say no to
// nearly every place; the forms that begin there then say whether they are there by keyed digests.
type table struct {
	key           [32]byte
	in, out       [256]uint64 // of a byte that enters the window, and of one that leaves it
	forms         []form      // by start, the longest first
	marks         [][]byte
	byName        map[string]uint32 // marks
	first, second []uint64          // bits, by the upper bits of starts and by the lower ones
	shift         uint
	longest       int      // of the forms
	begins        []uint64 // bits, by hashes of the first bytes of forms, fewer than a window
}

// beginBits is the size of the filter of beginnings, as a power of two: enough for the forms of a full vault.
const beginBits = 23

func newTable() *table {
	t := &table{byName: map[string]uint32{}, begins: make([]uint64, 1<<beginBits/64)}
	var raw [len(t.in) * 8]byte
	_, _ = rand.Read(raw[:]) // it never fails
	_, _ = rand.Read(t.key[:])
	for i := range t.in {
		t.in[i] = binary.LittleEndian.Uint64(raw[8*i:])
		t.out[i] = bits.RotateLeft64(t.in[i], window)
	}
	return t
}

// more is a table that knows the same and can learn; of none it is a new one.
func (t *table) more() *table {
	if t == nil {
		return newTable()
	}
	next := *t
	next.forms, next.marks, next.begins = slices.Clone(t.forms), slices.Clone(t.marks), slices.Clone(t.begins)
	next.byName = maps.Clone(t.byName)
	return &next
}

// learn adds the forms of a value.
func (t *table) learn(name string, value []byte) {
	for text := range formsOf(value) {
		sum := t.digest(text)
		f := form{
			start: t.hash(text[:window]), sum: [16]byte(sum), length: uint32(len(text)), offset: place(sum, len(text)), mark: t.mark(name),
		}
		f.probe = uint32(t.hash(text[f.offset : f.offset+window]))
		t.forms, t.longest = append(t.forms, f), max(t.longest, len(text))
		for n := 1; n < window; n++ {
			i := t.begin(text[:n])
			t.begins[i/64] |= 1 << (i % 64)
		}
	}
}

// place is where in a form it is looked at before all of it is, at random: the beginnings of keys are often alike.
func place(sum []byte, length int) uint32 {
	if length < 2*window {
		return 0
	}
	return window + binary.LittleEndian.Uint32(sum[16:])%uint32(length-2*window+1)
}

// mark is the number of what takes the place of a name's values.
func (t *table) mark(name string) uint32 {
	i, ok := t.byName[name]
	if !ok {
		i = uint32(len(t.marks))
		t.byName[name] = i
		t.marks = append(t.marks, []byte("[secret "+name+"]"))
	}
	return i
}

// finished makes a table ready for use: nil where it knows nothing.
func (t *table) finished() *table {
	if len(t.forms) == 0 {
		return nil
	}
	slices.SortStableFunc(t.forms, func(a, b form) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.length, a.length)) })
	t.forms = slices.Clip(slices.CompactFunc(t.forms, func(a, b form) bool { return a.sum == b.sum && a.length == b.length }))
	size := uint(max(16, bits.Len(uint(24*len(t.forms)))))
	t.first, t.second, t.shift = make([]uint64, 1<<size/64), make([]uint64, 1<<size/64), 64-size
	for _, f := range t.forms {
		i, j := f.start>>t.shift, f.start&(1<<size-1)
		t.first[i/64] |= 1 << (i % 64)
		t.second[j/64] |= 1 << (j % 64)
	}
	for i, m := range t.marks { // a name may be another secret's value, or its own
		if _, found := t.find(m, 0); found.end != 0 {
			t.marks[i] = []byte("[secret]")
		}
	}
	return t
}

// hash is that of all of b: of a window the one that rolls.
func (t *table) hash(b []byte) (h uint64) {
	for _, c := range b {
		h = bits.RotateLeft64(h, 1) ^ t.in[c]
	}
	return h
}

// begin is the place of a beginning in its filter.
func (t *table) begin(b []byte) uint64 {
	return bits.RotateLeft64(t.hash(b), 5*len(b)) & (1<<beginBits - 1)
}

func (t *table) digest(text []byte) []byte {
	h := hmac.New(sha256.New, t.key[:])
	h.Write(text)
	return h.Sum(nil)
}

// match is a form that was found, up to end, or the place from which on it takes more of the text to say.
type match struct {
	end  int // 0: there is none
	mark uint32
	open bool // a longer one may be there, in what is still to come
}

// find returns the first place from which on a form is there, and which.
func (t *table) find(b []byte, from int) (at int, m match) {
	for {
		at = t.next(b, from)
		if at < 0 {
			return 0, match{}
		}
		if m = t.at(b[at:]); m.end != 0 {
			m.end += at
			return at, m
		}
		from = at + 1
	}
}

// next is the first place from which on a form may be there; -1: there is none.
func (t *table) next(b []byte, from int) int {
	if len(b)-from < window {
		return -1
	}
	b = b[from:]
	h, first, shift, in, out := t.hash(b[:window]), t.first, t.shift&63, &t.in, &t.out
	if t.mayBegin(h) {
		return from
	}
	gone := b[:len(b)-window]
	for i, c := range b[window:][:len(gone)] {
		h = bits.RotateLeft64(h, 1) ^ out[gone[i]] ^ in[c]
		if k := h >> shift; first[k>>6]>>(k&63)&1 != 0 && t.mayBegin(h) {
			return from + i + 1
		}
	}
	return -1
}

// mayBegin asks both filters about a window.
func (t *table) mayBegin(h uint64) bool {
	i, j := h>>t.shift, h&(1<<(64-t.shift)-1)
	return (t.first[i/64]>>(i%64))&(t.second[j/64]>>(j%64))&1 != 0
}

// at returns the longest form at the beginning of b, which has a window at least. Where b is the beginning of a
// longer one, as far as can be seen, the match is open.
func (t *table) at(b []byte) match {
	start := t.hash(b[:window])
	i, ok := slices.BinarySearchFunc(t.forms, start, func(f form, h uint64) int { return cmp.Compare(f.start, h) })
	open := false
	for ; ok && i < len(t.forms) && t.forms[i].start == start; i++ {
		f := &t.forms[i]
		switch {
		case len(b) >= int(f.offset)+window && uint32(t.hash(b[f.offset:f.offset+window])) != f.probe:
		case len(b) < int(f.length):
			open = true
		default:
			if bytes.HasPrefix(t.digest(b[:f.length]), f.sum[:]) {
				return match{int(f.length), f.mark, open}
			}
		}
	}
	return match{open: open}
}

// begun is how many bytes at the end of b, fewer than a window, may be the beginning of a form.
func (t *table) begun(b []byte) int {
	for n := min(window-1, len(b)); n > 0; n-- {
		if i := t.begin(b[len(b)-n:]); t.begins[i/64]>>(i%64)&1 != 0 {
			return n
		}
	}
	return 0
}
