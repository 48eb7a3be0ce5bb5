package palyra_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/canon"
)

// The words are checked field by field, so that a field added later is covered
// without anyone remembering to.

var (
	timeType   = reflect.TypeFor[time.Time]()
	rawType    = reflect.TypeFor[json.RawMessage]()
	digestType = reflect.TypeFor[palyra.Digest]()
	effectType = reflect.TypeFor[palyra.Effect]()
)

// filled returns a T with something in every field that JSON sees.
func filled[T any](t *testing.T) T {
	t.Helper()
	var v T
	n := 0
	fill(t, reflect.ValueOf(&v).Elem(), &n)
	return v
}

func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, *n%60, *n, time.UTC)))
		return
	case rawType:
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
		return
	case digestType:
		v.SetString(string(palyra.SumBytes([]byte{byte(*n)})))
		return
	case effectType:
		v.SetInt(int64(palyra.Ask))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), reflect.ValueOf("v").Convert(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Struct:
		for _, i := range bound(v.Type()) {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("do not know how to fill a %s", v.Type())
	}
}

// bound returns the indexes of the fields that JSON sees.
func bound(t reflect.Type) []int {
	var is []int
	for i := range t.NumField() {
		if t.Field(i).IsExported() && t.Field(i).Tag.Get("json") != "-" {
			is = append(is, i)
		}
	}
	return is
}

// mutate calls f once for every leaf below v, with that leaf changed, and puts
// it back. Slices are also shortened and turned round.
func mutate(t *testing.T, path string, v reflect.Value, f func(path string)) {
	t.Helper()
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	changed := func(what string) {
		f(path + what)
		v.Set(old)
	}
	switch {
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(v.Interface().(time.Time).Add(time.Nanosecond)))
		changed("")
	case v.Type() == rawType:
		v.SetBytes([]byte(`{"n":0}`))
		changed("")
	case v.Type() == effectType:
		v.SetInt(int64(palyra.Allow))
		changed("")
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			mutate(t, fmt.Sprintf("%s[%d]", path, i), v.Index(i), f)
		}
		v.Set(v.Slice(0, 1))
		changed(" shortened")
		turned := reflect.MakeSlice(v.Type(), 2, 2)
		turned.Index(0).Set(v.Index(1))
		turned.Index(1).Set(v.Index(0))
		v.Set(turned)
		changed(" turned round")
	case v.Kind() == reflect.Struct:
		for _, i := range bound(v.Type()) {
			mutate(t, path+"."+v.Type().Field(i).Name, v.Field(i), f)
		}
	case v.Kind() == reflect.Pointer:
		mutate(t, path, v.Elem(), f)
	default:
		mutateScalar(t, v)
		changed("")
	}
}

func mutateScalar(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "!")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), reflect.ValueOf("other").Convert(v.Type().Elem()))
		v.Set(m)
	default:
		t.Fatalf("do not know how to change a %s", v.Type())
	}
}

// everyFieldCounts checks that digest(v) differs from the original for every
// changed field, and that no two changes share a digest.
func everyFieldCounts[T any](t *testing.T, digest func(T) (palyra.Digest, error)) {
	t.Helper()
	v := filled[T](t)
	base, err := digest(v)
	if err != nil || !base.Valid() {
		t.Fatalf("digest %q, %v", base, err)
	}
	seen, n := map[palyra.Digest]string{base: "the original"}, 0
	mutate(t, reflect.TypeFor[T]().Name(), reflect.ValueOf(&v).Elem(), func(path string) {
		n++
		d, err := digest(v)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if other, dup := seen[d]; dup {
			t.Errorf("%s has the digest of %s", path, other)
		}
		seen[d] = path
	})
	if again, _ := digest(v); again != base {
		t.Error("the walk did not put everything back")
	}
	if n < reflect.TypeFor[T]().NumField()-1 {
		t.Errorf("only %d changes were tried", n)
	}
}

// tags calls f for every JSON name of every struct reachable from t.
func tags(typ reflect.Type, seen map[reflect.Type]bool, f func(typ reflect.Type, field reflect.StructField, name string)) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ == timeType || seen[typ] {
		return
	}
	seen[typ] = true
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if !field.Anonymous {
			f(typ, field, name)
		}
		tags(field.Type, seen, f)
	}
}

// The canonical bytes of every word are those of its JSON text: digests and journal lines are made without that.
func TestCanonicalBytesAreThoseOfJSON(t *testing.T) {
	words := []any{
		filled[palyra.Plan](t), filled[palyra.Predicate](t), filled[palyra.Approval](t), filled[palyra.Posture](t),
		palyra.Plan{},
		palyra.Predicate{},
	}
	for _, e := range palyra.Catalogue() {
		full := reflect.New(reflect.TypeOf(e))
		n := 0
		fill(t, full.Elem(), &n)
		words = append(words, e, full.Elem().Interface())
	}
	for _, w := range words {
		raw, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		want, err := canon.FromJSON(raw)
		if err != nil {
			t.Fatalf("%T: %v", w, err)
		}
		if got, err := canon.Marshal(w); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T: %v\n%s\n%s", w, err, got, want)
		}
	}
}
