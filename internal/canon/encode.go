package canon

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// encoding of a value goes straight from Go values to canonical bytes: what a type needs is worked out once. The
// result is that of encoding/json's text read by Parse, which the tests hold it against; what only encoding/json
// knows how to write (floats, odd maps, types that marshal themselves by a pointer) goes that way still.

// writer appends the canonical bytes of one value after the other.
type writer struct {
	b    []byte
	mend bool // writes U+FFFD for what is not UTF-8, as encoding/json does, instead of refusing it
	doc  Doc  // reads the JSON text of values that have one of their own
}

// writers keep the memory of earlier values.
var writers = sync.Pool{New: func() any { return new(writer) }}

// mostKept is how much memory a writer keeps for the next value.
const mostKept = 64 << 10

// release gives a writer back for the next value.
func (w *writer) release() {
	if w.b, w.doc.p.b = w.b[:0], ""; cap(w.b) <= mostKept && cap(w.doc.nodes) <= mostKept/32 {
		clear(w.doc.texts)
		writers.Put(w)
	}
}

// value writes v.
func (w *writer) value(v any, mend bool) error {
	w.mend = mend
	if v == nil {
		w.b = append(w.b, 'z')
		return nil
	}
	r := reflect.ValueOf(v)
	return writeOf(r.Type())(w, r, 0)
}

// write writes the values of one type.
type write func(w *writer, v reflect.Value, depth int) error

var writes sync.Map // reflect.Type → write

// writeOf returns what writes values of a type.
func writeOf(t reflect.Type) write {
	if f, ok := writes.Load(t); ok {
		return f.(write) //nolint:forcetypeassert // nothing else is stored
	}
	var f write
	made := make(chan struct{})
	later := write(func(w *writer, v reflect.Value, depth int) error { // a type may contain itself
		<-made
		return f(w, v, depth)
	})
	if other, ok := writes.LoadOrStore(t, later); ok {
		return other.(write) //nolint:forcetypeassert // nothing else is stored
	}
	f = newWrite(t)
	close(made)
	writes.Store(t, f)
	return f
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	numberType    = reflect.TypeFor[json.Number]()
)

func newWrite(t reflect.Type) write {
	switch {
	case t.Implements(marshaler):
		return writeMarshaler
	case reflect.PointerTo(t).Implements(marshaler):
		return viaJSON
	case t.Implements(textMarshaler):
		return writeTextMarshaler
	case reflect.PointerTo(t).Implements(textMarshaler):
		return viaJSON
	case t == numberType:
		return writeNumber
	}
	switch t.Kind() {
	case reflect.Bool:
		return writeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return writeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return writeUint
	case reflect.String:
		return writeString
	case reflect.Interface:
		return writeInterface
	case reflect.Pointer:
		return newPointer(t)
	case reflect.Slice:
		return newSlice(t)
	case reflect.Map:
		return newMap(t)
	case reflect.Struct:
		return newStruct(t)
	}
	return viaJSON
}

func writeBool(w *writer, v reflect.Value, _ int) error {
	if v.Bool() {
		w.b = append(w.b, 't')
	} else {
		w.b = append(w.b, 'f')
	}
	return nil
}

func writeInt(w *writer, v reflect.Value, _ int) error {
	var digits [20]byte
	w.number(strconv.AppendInt(digits[:0], v.Int(), 10))
	return nil
}

func writeUint(w *writer, v reflect.Value, _ int) error {
	var digits [20]byte
	w.number(strconv.AppendUint(digits[:0], v.Uint(), 10))
	return nil
}

// number writes an integer, which has few enough digits to be written plainly.
func (w *writer) number(digits []byte) {
	w.b = append(appendCount(w.b, 'n', len(digits)), digits...)
}

func writeString(w *writer, v reflect.Value, _ int) error { return w.text(v.String()) }

func (w *writer) text(s string) error {
	if !utf8.ValidString(s) {
		if !w.mend {
			return ErrText
		}
		s = mended(s)
	}
	w.b = appendText(w.b, 's', s)
	return nil
}

// mended is s with U+FFFD for each byte that belongs to no character.
func mended(s string) string {
	var out strings.Builder
	for _, r := range s {
		out.WriteRune(r)
	}
	return out.String()
}

func writeNumber(w *writer, v reflect.Value, _ int) error {
	s := v.String()
	if s == "" {
		s = "0" // as encoding/json writes it
	}
	if !json.Valid([]byte(s)) || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return fmt.Errorf("%w %q", ErrNumber, s)
	}
	n, err := normal(s)
	if err == nil {
		w.b = appendText(w.b, 'n', n)
	}
	return err
}

func writeInterface(w *writer, v reflect.Value, depth int) error {
	if v.IsNil() {
		w.b = append(w.b, 'z')
		return nil
	}
	v = v.Elem()
	return writeOf(v.Type())(w, v, depth)
}

func writeMarshaler(w *writer, v reflect.Value, depth int) error {
	if k := v.Kind(); (k == reflect.Pointer || k == reflect.Interface) && v.IsNil() {
		w.b = append(w.b, 'z')
		return nil
	}
	m, _ := v.Interface().(json.Marshaler)
	raw, err := m.MarshalJSON()
	if err != nil {
		return fmt.Errorf("canon: marshal: %w", err)
	}
	return w.document(string(raw), depth)
}

func writeTextMarshaler(w *writer, v reflect.Value, _ int) error {
	if k := v.Kind(); (k == reflect.Pointer || k == reflect.Interface) && v.IsNil() {
		w.b = append(w.b, 'z')
		return nil
	}
	m, _ := v.Interface().(encoding.TextMarshaler)
	text, err := m.MarshalText()
	if err != nil {
		return fmt.Errorf("canon: marshal: %w", err)
	}
	return w.text(string(text))
}

// viaJSON writes what encoding/json makes of a value.
func viaJSON(w *writer, v reflect.Value, depth int) error {
	if !w.mend {
		if err := checkText(v); err != nil {
			return err
		}
	}
	if v.CanAddr() {
		v = v.Addr()
	}
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Errorf("canon: marshal: %w", err)
	}
	return w.document(string(raw), depth)
}

// document writes a JSON text.
func (w *writer) document(text string, depth int) error {
	if err := w.doc.readAt(text, depth); err != nil {
		return err
	}
	w.b = w.doc.AppendCanonical(w.b)
	return nil
}

func newPointer(t reflect.Type) write {
	elem := writeOf(t.Elem())
	return func(w *writer, v reflect.Value, depth int) error {
		if v.IsNil() {
			w.b = append(w.b, 'z')
			return nil
		}
		return elem(w, v.Elem(), depth)
	}
}

func newSlice(t reflect.Type) write {
	if t.Elem().Kind() == reflect.Uint8 {
		if e := reflect.PointerTo(t.Elem()); e.Implements(marshaler) || e.Implements(textMarshaler) {
			return viaJSON
		}
		return writeBytes
	}
	elem := writeOf(t.Elem())
	return func(w *writer, v reflect.Value, depth int) error {
		if v.IsNil() {
			w.b = append(w.b, 'z')
			return nil
		}
		w.b = appendCount(w.b, 'l', v.Len())
		for i := range v.Len() {
			if err := w.nested(elem, v.Index(i), depth); err != nil {
				return err
			}
		}
		return nil
	}
}

// nested writes a value that lies in a list or a map.
func (w *writer) nested(f write, v reflect.Value, depth int) error {
	if depth >= MaxDepth {
		return ErrDepth
	}
	return f(w, v, depth+1)
}

func writeBytes(w *writer, v reflect.Value, _ int) error {
	if v.IsNil() {
		w.b = append(w.b, 'z')
		return nil
	}
	w.b = appendCount(w.b, 's', base64.StdEncoding.EncodedLen(v.Len()))
	w.b = base64.StdEncoding.AppendEncode(w.b, v.Bytes())
	return nil
}

// keyed is a member of a map.
type keyed struct {
	key   string
	value reflect.Value
}

func newMap(t reflect.Type) write {
	if t.Key().Kind() != reflect.String || t.Key().Implements(textMarshaler) {
		return viaJSON
	}
	elem := writeOf(t.Elem())
	return func(w *writer, v reflect.Value, depth int) error {
		if v.IsNil() {
			w.b = append(w.b, 'z')
			return nil
		}
		all := make([]keyed, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			key := it.Key().String()
			if !utf8.ValidString(key) {
				if !w.mend {
					return ErrText
				}
				key = mended(key)
			}
			all = append(all, keyed{key, it.Value()})
		}
		slices.SortFunc(all, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
		w.b = appendCount(w.b, 'm', len(all))
		for i, e := range all {
			if i > 0 && all[i-1].key == e.key {
				return ErrRepeated
			}
			w.b = appendText(w.b, 's', e.key)
			if err := w.nested(elem, e.value, depth); err != nil {
				return err
			}
		}
		return nil
	}
}
