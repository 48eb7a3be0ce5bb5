package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// decoder reads JSON into a message, strictly: every member must be a field, of the field's kind, once.
type decoder struct {
	// word is for the words' own JSON: proto names only, integers as numbers, JSON texts as the values they are, zero
	// times left out. Otherwise it is the protocol's JSON mapping: camel-case names and quoted integers are taken as
	// well, and a JSON text may come as a string or as an object.
	word bool
}

// decode fills m from one JSON object.
func decode(data []byte, m proto.Message, word bool) error {
	switch {
	case !utf8.Valid(data):
		return errors.New("wire: the text is not UTF-8")
	case !json.Valid(data):
		return errors.New("wire: not valid JSON")
	}
	return decoder{word: word}.message(data, m.ProtoReflect())
}

func (d decoder) message(data []byte, m protoreflect.Message) error {
	seen := map[protoreflect.FieldNumber]bool{}
	return members(data, func(key string, val json.RawMessage) error {
		fd := d.find(m.Descriptor(), key)
		if fd == nil {
			return fmt.Errorf("wire: %s has no field %q", m.Descriptor().Name(), clip(key))
		}
		if seen[fd.Number()] {
			return fmt.Errorf("wire: field %q stands twice", fd.Name())
		}
		seen[fd.Number()] = true
		if o := fd.ContainingOneof(); o != nil && m.WhichOneof(o) != nil {
			return fmt.Errorf("wire: more than one field of %q", o.Name())
		}
		if isNull(val) {
			return nil
		}
		if err := d.field(m, fd, val); err != nil {
			return fmt.Errorf("%w (in %s)", err, fd.FullName())
		}
		return nil
	})
}

func (d decoder) find(md protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	fd := md.Fields().ByName(protoreflect.Name(key))
	if fd == nil && !d.word {
		fd = md.Fields().ByJSONName(key)
	}
	return fd
}

func (d decoder) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, val json.RawMessage) error {
	switch {
	case fd.IsMap():
		return d.pairs(m.Mutable(fd).Map(), fd, val)
	case fd.IsList():
		return d.list(m.Mutable(fd).List(), fd, val)
	}
	v, err := d.value(fd, val, m.NewField)
	if err != nil {
		return err
	}
	if v.IsValid() {
		m.Set(fd, v)
	}
	return nil
}

func (d decoder) list(list protoreflect.List, fd protoreflect.FieldDescriptor, val json.RawMessage) error {
	fresh := func(protoreflect.FieldDescriptor) protoreflect.Value { return list.NewElement() }
	return elements(val, func(item json.RawMessage) error {
		v, err := d.value(fd, item, fresh)
		if err != nil {
			return err
		}
		if isNull(item) || !v.IsValid() {
			return errors.New("wire: a list holds an empty item")
		}
		list.Append(v)
		return nil
	})
}

func (d decoder) pairs(m protoreflect.Map, fd protoreflect.FieldDescriptor, val json.RawMessage) error {
	if fd.MapKey().Kind() != protoreflect.StringKind {
		return errors.New("wire: a map's keys are not strings")
	}
	fresh := func(protoreflect.FieldDescriptor) protoreflect.Value { return m.NewValue() }
	return members(val, func(key string, item json.RawMessage) error {
		k := protoreflect.ValueOfString(key).MapKey()
		if m.Has(k) {
			return fmt.Errorf("wire: key %q stands twice", clip(key))
		}
		v, err := d.value(fd.MapValue(), item, fresh)
		if err != nil {
			return err
		}
		m.Set(k, v)
		return nil
	})
}

// value reads one value. The invalid Value means that the field stays empty.
func (d decoder) value(fd protoreflect.FieldDescriptor, val json.RawMessage,
	fresh func(protoreflect.FieldDescriptor) protoreflect.Value,
) (none protoreflect.Value, err error) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		var b bool
		err := json.Unmarshal(val, &b)
		return protoreflect.ValueOfBool(b), kind(err, "a truth value")
	case protoreflect.StringKind:
		s, err := d.text(fd, val)
		return protoreflect.ValueOfString(s), err
	case protoreflect.BytesKind:
		s, err := unquoted(val)
		if err != nil {
			return none, kind(err, "a string")
		}
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		return protoreflect.ValueOfBytes(b), kind(err, "base64")
	case protoreflect.MessageKind:
		v := fresh(fd)
		if fd.Message().FullName() == timestampName {
			return d.time(val)
		}
		return v, d.message(val, v.Message())
	}
	return d.number(fd, val)
}

func (d decoder) text(fd protoreflect.FieldDescriptor, val json.RawMessage) (string, error) {
	if isJSON(fd) {
		if d.word {
			return string(val), nil
		}
		if val[0] == '{' || val[0] == '[' {
			return string(val), nil
		}
	}
	s, err := unquoted(val)
	return s, kind(err, "a string")
}

func (d decoder) number(fd protoreflect.FieldDescriptor, val json.RawMessage) (none protoreflect.Value, err error) {
	text := string(val)
	if !d.word && len(val) > 2 && val[0] == '"' {
		text = text[1 : len(text)-1] // the JSON mapping quotes 64-bit integers
	}
	switch fd.Kind() {
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(n), kind(err, "a whole number in range")
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), kind(err, "a whole number in range")
	case protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		return protoreflect.ValueOfUint32(uint32(n)), kind(err, "a whole number in range")
	case protoreflect.Uint64Kind:
		n, err := strconv.ParseUint(text, 10, 64)
		return protoreflect.ValueOfUint64(n), kind(err, "a whole number in range")
	}
	return none, fmt.Errorf("wire: fields of kind %s are not used", fd.Kind())
}

func (d decoder) time(val json.RawMessage) (none protoreflect.Value, err error) {
	var t time.Time
	if err := json.Unmarshal(val, &t); err != nil {
		return none, kind(err, "a time in RFC 3339")
	}
	if d.word && t.IsZero() {
		return none, nil // a word's zero time is no time
	}
	return protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect()), nil
}

// members calls f with each member of a JSON object in order. The text is known to be valid.
func members(data []byte, f func(key string, val json.RawMessage) error) error {
	return within(data, '{', "a JSON object", func(at []byte) (rest []byte, err error) {
		end := extent(at)
		key, err := unquoted(at[:end])
		if err != nil {
			return nil, err
		}
		at = blank(blank(at[end:])[len(":"):])
		end = extent(at)
		return at[end:], f(key, at[:end:end])
	})
}

// elements calls f with each item of a JSON list in order. The text is known to be valid.
func elements(data []byte, f func(item json.RawMessage) error) error {
	return within(data, '[', "a JSON list", func(at []byte) (rest []byte, err error) {
		end := extent(at)
		return at[end:], f(at[:end:end])
	})
}

// within calls f at each part of a JSON object or list; f returns what comes after the part.
func within(data []byte, open byte, want string, f func(at []byte) (rest []byte, err error)) (err error) {
	data = blank(data)
	if len(data) == 0 || data[0] != open {
		return errors.New("wire: not " + want)
	}
	for data = blank(data[1:]); data[0] != '}' && data[0] != ']'; {
		if data, err = f(data); err != nil {
			return err
		}
		if data = blank(data); data[0] == ',' {
			data = blank(data[1:])
		}
	}
	return nil
}

// blank returns what comes after the white space.
func blank(data []byte) []byte { return bytes.TrimLeft(data, " \t\r\n") }

// extent is how long the JSON value is that the text begins with.
func extent(data []byte) int {
	for i, depth := 0, 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']', ',', ' ', '\t', '\r', '\n':
			if depth == 0 { // the end of what it stands in
				return i
			}
			if data[i] != '}' && data[i] != ']' {
				continue
			}
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(data)
}

// unquoted is the text of a JSON string, as json.Unmarshal has it.
func unquoted(val []byte) (string, error) {
	if last := len(val) - 1; last > 0 && val[0] == '"' && bytes.IndexByte(val, '\\') < 0 {
		return string(val[1:last]), nil
	}
	var s string
	err := json.Unmarshal(val, &s)
	return s, err
}

func kind(err error, want string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("wire: not %s", want)
}

func isNull(val json.RawMessage) bool { return string(val) == "null" }
