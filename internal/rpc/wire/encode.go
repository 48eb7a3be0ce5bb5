package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "palyra/api/gen/palyra/v1"
)

const timestampName protoreflect.FullName = "google.protobuf.Timestamp"

// encoder writes a message as JSON: populated fields only, under their proto
// names, integers as numbers, times as RFC 3339 in UTC.
type encoder struct {
	buf  bytes.Buffer
	text *json.Encoder // writes strings into buf
	raw  bool          // JSON texts stand as the values they are, not as strings
}

// encode returns m as JSON.
func encode(m proto.Message, raw bool) ([]byte, error) {
	e := &encoder{raw: raw}
	e.text = json.NewEncoder(&e.buf)
	e.text.SetEscapeHTML(false)
	if err := e.message(m.ProtoReflect()); err != nil {
		return nil, err
	}
	return e.buf.Bytes(), nil
}

func (e *encoder) message(m protoreflect.Message) error {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("wire: %s holds fields that this build does not know", m.Descriptor().Name())
	}
	e.buf.WriteByte('{')
	fields, first := m.Descriptor().Fields(), true
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		if !first {
			e.buf.WriteByte(',')
		}
		first = false
		e.string(string(fd.Name()))
		e.buf.WriteByte(':')
		if err := e.field(fd, m.Get(fd)); err != nil {
			return fmt.Errorf("%w (in %s)", err, fd.FullName())
		}
	}
	e.buf.WriteByte('}')
	return nil
}

func (e *encoder) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch {
	case fd.IsMap():
		return e.pairs(fd, v.Map())
	case fd.IsList():
		list := v.List()
		e.buf.WriteByte('[')
		for i := range list.Len() {
			if i > 0 {
				e.buf.WriteByte(',')
			}
			if err := e.value(fd, list.Get(i)); err != nil {
				return err
			}
		}
		e.buf.WriteByte(']')
		return nil
	}
	return e.value(fd, v)
}

func (e *encoder) pairs(fd protoreflect.FieldDescriptor, m protoreflect.Map) error {
	if fd.MapKey().Kind() != protoreflect.StringKind {
		return fmt.Errorf("wire: a map's keys are not strings")
	}
	e.buf.WriteByte('{')
	first := true
	var err error
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		if !first {
			e.buf.WriteByte(',')
		}
		first = false
		e.string(k.String())
		e.buf.WriteByte(':')
		err = e.value(fd.MapValue(), v)
		return err == nil
	})
	e.buf.WriteByte('}')
	return err
}

func (e *encoder) value(fd protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		e.buf.WriteString(strconv.FormatBool(v.Bool()))
	case protoreflect.StringKind:
		if e.raw && isJSON(fd) {
			return e.json(v.String())
		}
		e.string(v.String())
	case protoreflect.BytesKind:
		e.string(base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		e.buf.WriteString(strconv.FormatInt(v.Int(), 10))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		e.buf.WriteString(strconv.FormatUint(v.Uint(), 10))
	case protoreflect.MessageKind:
		if fd.Message().FullName() == timestampName {
			return e.time(v.Message())
		}
		return e.message(v.Message())
	default:
		return fmt.Errorf("wire: fields of kind %s are not used", fd.Kind())
	}
	return nil
}

func (e *encoder) time(m protoreflect.Message) error {
	ts, ok := m.Interface().(*timestamppb.Timestamp)
	if !ok {
		return fmt.Errorf("wire: not a timestamp")
	}
	if err := ts.CheckValid(); err != nil {
		return fmt.Errorf("wire: a time is out of range")
	}
	e.string(ts.AsTime().UTC().Format(time.RFC3339Nano))
	return nil
}

// string writes s quoted. HTML characters stay readable; the encoder's newline is taken back.
func (e *encoder) string(s string) {
	_ = e.text.Encode(s) // a string always encodes, and a buffer takes it
	e.buf.Truncate(e.buf.Len() - 1)
}

func (e *encoder) json(s string) error {
	if !json.Valid([]byte(s)) {
		return fmt.Errorf("wire: a JSON text is not valid")
	}
	e.buf.WriteString(s)
	return nil
}

// isJSON reports whether a string field holds a JSON text.
func isJSON(fd protoreflect.FieldDescriptor) bool {
	if fd.Kind() != protoreflect.StringKind || fd.Options() == nil {
		return false
	}
	is, _ := proto.GetExtension(fd.Options(), v1.E_Json).(bool)
	return is
}
