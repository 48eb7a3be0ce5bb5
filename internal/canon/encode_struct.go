package canon

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a member of a struct, as its json tag says.
type field struct {
	name  string
	key   []byte // canonical
	index []int
	omit  func(reflect.Value) bool // nil: it is always written
	write write
}

var zeroer = reflect.TypeFor[interface{ IsZero() bool }]()

// newStruct writes a struct as the map of its fields. Structs with what is rare and has rules of its own (fields that
// hide others, embedded pointers, numbers in quotes) are left to encoding/json.
func newStruct(t reflect.Type) write {
	fields, ok := fieldsOf(t, nil)
	if !ok {
		return viaJSON
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	for i := range fields {
		if i > 0 && fields[i-1].name == fields[i].name {
			return viaJSON
		}
		fields[i].key = appendText(nil, 's', fields[i].name)
	}
	if len(fields) > maxFields {
		return viaJSON
	}
	return func(w *writer, v reflect.Value, depth int) error {
		var here [maxFields]bool
		n := 0
		for i := range fields {
			f := &fields[i]
			if here[i] = f.omit == nil || !f.omit(f.value(v)); here[i] {
				n++
			}
		}
		w.b = appendCount(w.b, 'm', n)
		for i := range fields {
			if !here[i] {
				continue
			}
			f := &fields[i]
			w.b = append(w.b, f.key...)
			if err := w.nested(f.write, f.value(v), depth); err != nil {
				return err
			}
		}
		return nil
	}
}

// maxFields is more than any of our structs has.
const maxFields = 64

func (f *field) value(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

// fieldsOf lists the members of a struct with those of the structs that are embedded in it; false: there is
// something among them that only encoding/json knows how to write.
func fieldsOf(t reflect.Type, index []int) ([]field, bool) {
	var all []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		at := append(slices.Clone(index), i)
		switch {
		case tag == "-", !sf.IsExported() && !sf.Anonymous:
			continue
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct &&
			!sf.Type.Implements(marshaler) && !sf.Type.Implements(textMarshaler):
			more, ok := fieldsOf(sf.Type, at)
			if !ok {
				return nil, false
			}
			all = append(all, more...)
			continue
		case sf.Anonymous, !plainName(name):
			return nil, false
		case name == "":
			name = sf.Name
		}
		f := field{name: name, index: at, write: writeOf(sf.Type)}
		if !f.setOptions(sf.Type, options) {
			return nil, false
		}
		all = append(all, f)
	}
	return all, true
}

// plainName reports whether a name in a tag is one that encoding/json takes as well.
func plainName(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
}

func (f *field) setOptions(t reflect.Type, options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "":
		case "omitempty":
			f.leaveOut(empty)
		case "omitzero":
			switch {
			case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface, !t.Implements(zeroer) && reflect.PointerTo(t).Implements(zeroer):
				return false
			case t.Implements(zeroer):
				f.leaveOut(func(v reflect.Value) bool {
					return v.Interface().(interface{ IsZero() bool }).IsZero() //nolint:forcetypeassert // it does
				})
			default:
				f.leaveOut(reflect.Value.IsZero)
			}
		default:
			return false
		}
	}
	return true
}

func (f *field) leaveOut(when func(reflect.Value) bool) {
	if before := f.omit; before != nil {
		f.omit = func(v reflect.Value) bool { return before(v) || when(v) }
		return
	}
	f.omit = when
}

// empty is what omitempty leaves out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
