package canon

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Doc is a JSON document that was read once, as strictly as Parse reads it. Its values can be looked at where they
// stand, and its canonical bytes made, without reading or copying it again: whoever checks a digest and needs what
// it stands for pays for one reading. The zero Doc is ready, and Read may be called again and again; values of an
// earlier document are then void, their texts are not.
type Doc struct {
	p     parser
	bare  bool // strings have no quotes: the document is canonical bytes
	nodes []node
	order []int32  // keys of objects, in byte order
	texts []string // that do not stand in the document as they are
}

// node is a value, or a key before its value. The nodes of what is in a list or an object follow it.
type node struct {
	kind     Kind
	odd      bool  // its text is in texts, at size
	from, to int32 // in the document
	next     int32 // the node after all that is in this one
	size     int32 // of a list or object
	order    int32 // where the keys of an object are in order
}

// Kind is what a value is.
type Kind byte

// What values are. The zero Kind is of a value that is not there.
const (
	Nothing Kind = iota
	Null
	Bool
	Number
	String
	List
	Object
)

// maxDoc bounds what a Doc reads; positions are kept in few bits.
const maxDoc = 1 << 30

// Read reads a document. It accepts what Parse accepts and nothing else.
func (d *Doc) Read(text string) error { return d.readAt(text, 0) }

// readAt reads a document that stands that deep in another value.
func (d *Doc) readAt(text string, depth int) error {
	d.nodes, d.order, d.texts = d.nodes[:0], d.order[:0], d.texts[:0]
	d.p, d.bare = parser{b: text}, false
	if len(text) > maxDoc {
		return errors.New("canon: the document is too long")
	}
	if !utf8.ValidString(text) {
		return ErrText
	}
	err := d.value(depth)
	if d.p.space(); err == nil && d.p.i != len(text) {
		err = d.p.flawAt(ErrRest)
	}
	if err != nil {
		d.nodes = d.nodes[:0]
	}
	return err
}

// readPart reads the value that begins there in a text, that deep in another one, and returns where it ends.
func (d *Doc) readPart(text string, from, depth int) (end int, err error) {
	d.nodes, d.order, d.texts = d.nodes[:0], d.order[:0], d.texts[:0]
	d.p, d.bare = parser{b: text, i: from}, false
	if from >= len(text) || text[from] <= ' ' {
		return 0, d.p.bad("not a JSON value")
	}
	err = d.value(depth)
	if err == nil && !utf8.ValidString(text[from:d.p.i]) {
		err = ErrText
	}
	if err != nil {
		d.nodes = d.nodes[:0]
	}
	return d.p.i, err
}

// Root is the whole document; Nothing where none was read.
func (d *Doc) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{d, 0}
}

// add begins a node where the reader stands.
func (d *Doc) add(k Kind) int {
	d.nodes = append(d.nodes, node{kind: k, from: int32(d.p.i)})
	return len(d.nodes) - 1
}

// end ends a node where the reader stands.
func (d *Doc) end(i int) {
	d.nodes[i].to, d.nodes[i].next = int32(d.p.i), int32(len(d.nodes))
}

func (d *Doc) value(depth int) error {
	if depth > MaxDepth {
		return ErrDepth
	}
	switch c := d.p.next(); c {
	case '{':
		return d.object(depth)
	case '[':
		return d.list(depth)
	case '"':
		return d.text()
	case 't':
		return d.word(Bool, "true")
	case 'f':
		return d.word(Bool, "false")
	case 'n':
		return d.word(Null, "null")
	}
	i := d.add(Number)
	n, err := d.p.number()
	d.end(i)
	if err == nil && n != d.p.b[d.nodes[i].from:d.p.i] {
		d.addText(i, n)
	}
	return err
}

func (d *Doc) word(k Kind, w string) error {
	i := d.add(k)
	err := d.p.word(w)
	d.end(i)
	return err
}

// addText keeps a text that does not stand in the document.
func (d *Doc) addText(i int, s string) {
	d.nodes[i].odd, d.nodes[i].size = true, int32(len(d.texts))
	d.texts = append(d.texts, s)
}

func (d *Doc) text() error {
	n := node{kind: String, from: int32(d.p.i), next: int32(len(d.nodes)) + 1}
	s, err := d.p.text()
	n.to = int32(d.p.i)
	d.nodes = append(d.nodes, n)
	if err == nil && len(s) != int(n.to-n.from)-2 { // an escape is longer than what it stands for
		d.addText(len(d.nodes)-1, s)
	}
	return err
}

func (d *Doc) list(depth int) error {
	at := d.add(List)
	d.p.i++
	n := int32(0)
	for more := d.p.next() != ']'; more; n++ {
		if err := d.value(depth + 1); err != nil {
			return err
		}
		switch d.p.next() {
		case ',':
			d.p.i++
		case ']':
			more = false
		default:
			return d.p.bad("expected , or ]")
		}
	}
	d.p.i++
	d.nodes[at].size = n
	d.end(at)
	return nil
}

func (d *Doc) object(depth int) error {
	at := d.add(Object)
	d.p.i++
	n := int32(0)
	for more := d.p.next() != '}'; more; n++ {
		if err := d.member(depth); err != nil {
			return err
		}
		switch d.p.next() {
		case ',':
			d.p.i++
		case '}':
			more = false
		default:
			return d.p.bad("expected , or }")
		}
	}
	d.p.i++
	d.nodes[at].size = n
	d.end(at)
	return d.sort(at)
}

func (d *Doc) member(depth int) error {
	if d.p.next() != '"' {
		return d.p.bad("expected a key")
	}
	if err := d.text(); err != nil {
		return err
	}
	if d.p.next() != ':' {
		return d.p.bad("expected :")
	}
	d.p.i++
	return d.value(depth + 1)
}

// sort puts the keys of an object in order, and refuses one that is repeated.
func (d *Doc) sort(at int) error {
	start := len(d.order)
	d.nodes[at].order = int32(start)
	d.addKeys(at)
	keys := d.order[start:]
	slices.SortFunc(keys, func(a, b int32) int { return strings.Compare(d.textOf(a), d.textOf(b)) })
	for i := 1; i < len(keys); i++ {
		if d.textOf(keys[i-1]) == d.textOf(keys[i]) {
			return d.p.flawAt(ErrRepeated)
		}
	}
	return nil
}

// addKeys adds the keys of an object to the order as they stand.
func (d *Doc) addKeys(at int) {
	for i, n := int32(at)+1, d.nodes[at].size; n > 0; n-- {
		d.order = append(d.order, i)
		i = d.nodes[i+1].next
	}
}

// textOf is the text of a string, a number, true or false.
func (d *Doc) textOf(i int32) string {
	switch n := &d.nodes[i]; {
	case n.odd:
		return d.texts[n.size]
	case n.kind == String && !d.bare:
		return d.p.b[n.from+1 : n.to-1]
	default:
		return d.p.b[n.from:n.to]
	}
}

// AppendCanonical writes the canonical bytes of the document: what FromJSON returns.
func (d *Doc) AppendCanonical(b []byte) []byte {
	if len(d.nodes) == 0 {
		return b
	}
	return d.canonical(b, 0)
}

func (d *Doc) canonical(b []byte, i int32) []byte {
	switch n := &d.nodes[i]; n.kind {
	case Bool:
		b = append(b, d.p.b[n.from])
	case Number:
		b = appendText(b, 'n', d.textOf(i))
	case String:
		b = appendText(b, 's', d.textOf(i))
	case List:
		b = appendCount(b, 'l', int(n.size))
		for k := i + 1; k < n.next; k = d.nodes[k].next {
			b = d.canonical(b, k)
		}
	case Object:
		b = appendCount(b, 'm', int(n.size))
		for _, key := range d.order[n.order : n.order+n.size] {
			b = d.canonical(appendText(b, 's', d.textOf(key)), key+1)
		}
	default:
		b = append(b, 'z')
	}
	return b
}
