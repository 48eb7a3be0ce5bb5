package canon

import (
	"iter"
	"strconv"
)

// Value is a value of a Doc, as long as that reads nothing else. The zero Value is of Kind Nothing.
type Value struct {
	d *Doc
	i int32
}

// Kind says what the value is.
func (v Value) Kind() Kind {
	if v.d == nil {
		return Nothing
	}
	return v.d.nodes[v.i].kind
}

// Raw is the text of the value as it stands in the document.
func (v Value) Raw() string {
	if v.d == nil {
		return ""
	}
	n := v.d.nodes[v.i]
	return v.d.p.b[n.from:n.to]
}

// Text is what a string says; false where the value is none.
func (v Value) Text() (string, bool) {
	if v.Kind() != String {
		return "", false
	}
	return v.d.textOf(v.i), true
}

// Bool is what true and false say; ok is false where the value is neither.
func (v Value) Bool() (is, ok bool) {
	if v.Kind() != Bool {
		return false, false
	}
	return v.d.p.b[v.d.nodes[v.i].from] == 't', true
}

// Int is a whole number; false where the value is none or too large.
func (v Value) Int() (int64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.d.textOf(v.i), 10, 64)
	return n, err == nil
}

// Len is how many items a list and how many members an object has.
func (v Value) Len() int {
	if k := v.Kind(); k != List && k != Object {
		return 0
	}
	return int(v.d.nodes[v.i].size)
}

// Items goes through a list; anything else has none.
func (v Value) Items() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != List {
			return
		}
		for i, end := v.i+1, v.d.nodes[v.i].next; i < end; i = v.d.nodes[i].next {
			if !yield(Value{v.d, i}) {
				return
			}
		}
	}
}

// Members goes through an object in the order of the document; anything else has none.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Kind() != Object {
			return
		}
		for i, end := v.i+1, v.d.nodes[v.i].next; i < end; i = v.d.nodes[i+1].next {
			if !yield(v.d.textOf(i), Value{v.d, i + 1}) {
				return
			}
		}
	}
}
