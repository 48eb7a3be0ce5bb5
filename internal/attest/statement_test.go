package attest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/canon"
)

// draw puts anything into v, as far as its type goes.
func draw(t *rapid.T, v reflect.Value, depth int, texts []string) {
	switch v.Type() {
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(rapid.SampledFrom([]string{`null`, `{"a":1.0}`, `[ "\u2028" ]`}).Draw(t, "raw")))
		return
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), 7)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.SampledFrom(texts).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "uint")))
	case reflect.Slice:
		if n := rapid.IntRange(-1, 2).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			draw(t, v.Index(i), depth+1, texts)
		}
	case reflect.Map:
		if n := rapid.IntRange(-1, 2).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				draw(t, key, depth+1, texts)
				draw(t, value, depth+1, texts)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Pointer:
		if depth < 4 && rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem(), depth+1, texts)
		}
	case reflect.Interface:
		all := []any{nil, 1.5, "x", json.Number("1.0"), []any{true}, map[string]any{"b": 1, "a": "x"}}
		if some := rapid.SampledFrom(all).Draw(t, "any"); some != nil {
			v.Set(reflect.ValueOf(some))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				draw(t, v.Field(i), depth+1, texts)
			}
		}
	default:
		t.Fatalf("a %s", v.Type())
	}
}

// Property: whatever is signed reads as what was signed, whatever a run, its runner or an approver put into it.
func TestWhatIsSignedIsRead(t *testing.T) {
	signed := 0
	rapid.Check(t, func(t *rapid.T) {
		var p palyra.Predicate
		texts := []string{"", "x", "<&>\u2028\x00\"\\", "\u00e9", "\uFFFD"}
		if rapid.IntRange(0, 3).Draw(t, "bad") == 0 {
			texts = append(texts, "bad \xff byte")
		}
		draw(t, reflect.ValueOf(&p).Elem(), 0, texts)
		p.AttestationID, p.CallID = "01JCATTEST0000000000000001", "01JCCALL000000000000000001"
		p.PlanDigest, p.OutcomeDigest, p.ExecutionSHA256 = palyra.SumBytes(nil), palyra.SumBytes(nil), ""
		text, as, err := encodeStatement(p)
		if err != nil {
			return // a byte that is no text, mostly
		}
		signed++
		read, err := decodeStatement(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if execution, err := read.Execution(); err != nil || execution != as.ExecutionSHA256 {
			t.Fatalf("execution %s, %v; signed %s", execution, err, as.ExecutionSHA256)
		}
		if again, err := canon.JSON(statementOf(as)); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%v\n%s\n%s", err, again, text)
		}
	})
	if signed == 0 {
		t.Error("nothing was signed")
	}
}
