package canon

import (
	"encoding/json"
	"reflect"
	"unicode/utf8"
)

var marshaler = reflect.TypeFor[json.Marshaler]()

// checkText walks a Go value and refuses any string that is not UTF-8. What
// marshals itself writes its own JSON text, which Parse checks.
func checkText(v reflect.Value) error {
	if !v.IsValid() || v.Type().Implements(marshaler) {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return ErrText
		}
	case reflect.Pointer, reflect.Interface:
		return checkText(v.Elem())
	case reflect.Slice, reflect.Array:
		return checkItems(v)
	case reflect.Map:
		return checkMap(v)
	case reflect.Struct:
		return checkFields(v)
	}
	return nil
}

func checkItems(v reflect.Value) error {
	if v.Type().Elem().Kind() == reflect.Uint8 { // base64, or a RawMessage
		return nil
	}
	for i := range v.Len() {
		if err := checkText(v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func checkMap(v reflect.Value) error {
	for it := v.MapRange(); it.Next(); {
		if err := checkText(it.Key()); err != nil {
			return err
		}
		if err := checkText(it.Value()); err != nil {
			return err
		}
	}
	return nil
}

func checkFields(v reflect.Value) error {
	for i := range v.NumField() {
		if f := v.Type().Field(i); !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		if err := checkText(v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}
