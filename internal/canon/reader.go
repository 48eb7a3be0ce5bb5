package canon

import (
	"fmt"
	"strings"
)

// Reader takes values of a document as encoding/json would: null leaves what is there, and a value of another
// kind is an error, of which the first is kept.
type Reader struct{ err error }

func (r *Reader) wrong(v Value, want string) {
	if r.err == nil && v.Kind() != Null {
		r.err = fmt.Errorf("canon: %s is no %s", short(v.Raw()), want)
	}
}

// Flag reads true or false.
func (r *Reader) Flag(v Value, to *bool) {
	if is, ok := v.Bool(); ok {
		*to = is
	} else {
		r.wrong(v, "bool")
	}
}

// Whole reads a whole number.
func (r *Reader) Whole(v Value, to *int64) {
	if n, ok := v.Int(); ok {
		*to = n
	} else {
		r.wrong(v, "whole number")
	}
}

// Object goes through the members of an object.
func (r *Reader) Object(v Value, member func(name string, v Value)) {
	if v.Kind() != Object {
		r.wrong(v, "object")
		return
	}
	for name, value := range v.Members() {
		member(name, value)
	}
}

// ReadWord reads a string. It is a copy: whoever keeps it does not keep the document.
func ReadWord[T ~string](r *Reader, v Value, to *T) {
	LendWord(r, v, to)
	*to = T(strings.Clone(string(*to)))
}

// LendWord reads a string that nobody keeps.
func LendWord[T ~string](r *Reader, v Value, to *T) {
	if s, ok := v.Text(); ok {
		*to = T(s)
	} else {
		r.wrong(v, "string")
	}
}

// ReadList reads a list with a reader of its items.
func ReadList[T any](r *Reader, v Value, to *[]T, item func(Value, *T)) {
	if v.Kind() != List {
		r.wrong(v, "list")
		return
	}
	*to = make([]T, v.Len())
	i := 0
	for one := range v.Items() {
		item(one, &(*to)[i])
		i++
	}
}

// ReadWords reads a list of strings. They are one copy: whoever keeps one does not keep the document.
func ReadWords[T ~string](r *Reader, v Value, to *[]T) {
	size := 0
	ReadList(r, v, to, func(one Value, to *T) {
		LendWord(r, one, to)
		size += len(*to)
	})
	var b strings.Builder
	b.Grow(size)
	for i, one := range *to {
		at := b.Len()
		b.WriteString(string(one))
		(*to)[i] = T(b.String()[at:])
	}
}

// Fail is for what else can be wrong with a value.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Err is the first thing that was wrong; nil: nothing was.
func (r *Reader) Err() error { return r.err }

// short is enough of a value to know it by.
func short(raw string) string {
	const most = 64
	if len(raw) > most {
		return strings.ToValidUTF8(raw[:most], "") + "…"
	}
	return raw
}
