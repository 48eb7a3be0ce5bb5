package store

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"
	"strconv"
)

// value is an argument as engines take it.
func value(a any) (driver.Value, error) {
	switch a := a.(type) {
	case nil, int64, string, []byte, bool, float64:
		return a, nil
	case int:
		return int64(a), nil
	}
	return driver.DefaultParameterConverter.ConvertValue(a)
}

// assign puts a column's value where a part wants it: into a string, number, bool, bytes, any, or a type with one of
// these beneath it, or a pointer to one. What does not fit is an error, NULL too unless it is bytes, a pointer or any.
func assign(to any, v driver.Value) error {
	switch to := to.(type) {
	case *string:
		if s, ok := v.(string); ok {
			*to = s
			return nil
		}
	case *int64:
		if n, ok := v.(int64); ok {
			*to = n
			return nil
		}
	case *[]byte:
		switch v := v.(type) {
		case []byte:
			*to = v
			return nil
		case nil:
			*to = nil
			return nil
		}
	case *any:
		*to = v
		return nil
	case sql.Scanner:
		return to.Scan(v)
	}
	dest := reflect.ValueOf(to)
	if dest.Kind() != reflect.Pointer || dest.IsNil() {
		return fmt.Errorf("store: a column cannot be put into %T", to)
	}
	return convert(dest.Elem(), v)
}

// convert is assign for what is rarer.
func convert(dest reflect.Value, v driver.Value) error {
	if !converted(dest, v) {
		return fmt.Errorf("store: a column that holds %T cannot be put into %s", v, dest.Type())
	}
	return nil
}

// converted reports whether a column could be put there.
func converted(dest reflect.Value, v driver.Value) bool {
	switch dest.Kind() {
	case reflect.Pointer: // nil for NULL
		if v == nil {
			dest.SetZero()
			return true
		}
		dest.Set(reflect.New(dest.Type().Elem()))
		return converted(dest.Elem(), v)
	case reflect.String:
		switch v := v.(type) {
		case string:
			dest.SetString(v)
		case []byte:
			dest.SetString(string(v))
		case int64:
			dest.SetString(strconv.FormatInt(v, 10))
		default:
			return false
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := v.(int64)
		if !ok || dest.OverflowInt(n) {
			return false
		}
		dest.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, ok := v.(int64)
		if !ok || n < 0 || dest.OverflowUint(uint64(n)) {
			return false
		}
		dest.SetUint(uint64(n))
	case reflect.Bool:
		switch v := v.(type) {
		case bool:
			dest.SetBool(v)
		case int64:
			dest.SetBool(v != 0)
		default:
			return false
		}
	case reflect.Float64:
		f, ok := v.(float64)
		if !ok {
			return false
		}
		dest.SetFloat(f)
	case reflect.Slice:
		return convertedBytes(dest, v)
	default:
		return false
	}
	return true
}

func convertedBytes(dest reflect.Value, v driver.Value) bool {
	if dest.Type().Elem().Kind() != reflect.Uint8 {
		return false
	}
	switch v := v.(type) {
	case nil:
		dest.SetZero()
	case []byte:
		dest.SetBytes(v)
	case string:
		dest.SetBytes([]byte(v))
	default:
		return false
	}
	return true
}
