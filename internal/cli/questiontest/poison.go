package questiontest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// Hostile is a text that must never be printed unescaped.
const Hostile = "x\x1b[2J\r\u202e\u200b\u009b\xff p\u0430ypal\tz"

// Poison fills every string that can be reached from v with hostile text, and every list and map with one entry.
func Poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(Hostile)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(SampleNow))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				Poison(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			raw, _ := json.Marshal(map[string]string{"k": "\x1b\u202e\u009b"})
			v.SetBytes(raw)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			Poison(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		Poison(key)
		Poison(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		Poison(v.Elem())
	case reflect.Interface:
		v.Set(reflect.ValueOf(Hostile))
	}
}

// Poisoned is a value whose every text is hostile.
func Poisoned[T any]() T {
	var x T
	Poison(reflect.ValueOf(&x).Elem())
	return x
}

// CheckSafe fails on bytes that a terminal could take for a command, and on invalid text.
func CheckSafe(t *testing.T, name, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Errorf("%s: not UTF-8: %q", name, out)
	}
	for _, r := range out {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s: %U in %q", name, r, out)
			return
		}
	}
	if strings.Contains(out, "p\u0430ypal") {
		t.Errorf("%s: a look-alike passed: %q", name, out)
	}
	if out == "" {
		t.Errorf("%s: nothing was printed", name)
	}
}

// CheckJSON checks that JSON is safe to print and means what plain JSON means.
func CheckJSON(t *testing.T, name string, v any, encode func(any) ([]byte, error)) {
	t.Helper()
	raw, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	CheckSafe(t, name, string(raw))
	plain, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back, want any
	if json.Unmarshal(raw, &back) != nil || json.Unmarshal(plain, &want) != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("%s: the JSON means something else: %s", name, raw)
	}
}
