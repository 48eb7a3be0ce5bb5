package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/canon"
)

// FromWord fills m with a word: any value whose JSON members are m's fields. A
// member that m does not have is an error, so that nothing is lost on the way.
func FromWord(word any, m proto.Message) error {
	raw, err := canon.JSON(word) // JSON texts inside travel byte for byte
	if err != nil {
		return fmt.Errorf("wire: from word: %w", err)
	}
	return decode(raw, m, true)
}

// Answer is res with a word filled into it, or into a part of it: what a method answers that got the word or err.
func Answer[R any](res *R, into proto.Message, word any, err error) (*R, error) {
	if err != nil {
		return nil, err
	}
	return res, FromWord(word, into)
}

// ToWord fills a word, given by pointer, from m. A field that the word does not have is an error.
func ToWord(m proto.Message, word any) error {
	raw, err := encode(m, true)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // integers inside JSON texts keep their digits
	dec.DisallowUnknownFields()
	if err := dec.Decode(word); err != nil {
		return fmt.Errorf("wire: to word: %w", err)
	}
	return nil
}

// Fields returns the populated fields of a request as an intent signs them.
func Fields(m proto.Message) (map[string]any, error) {
	raw, err := encode(m, false)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	fields := map[string]any{}
	if err := dec.Decode(&fields); err != nil {
		return nil, fmt.Errorf("wire: fields: %w", err)
	}
	return fields, nil
}

// Kept returns the fields of a signed request as they may be kept: without what the protocol marks as secret.
func Kept(m proto.Message, fields map[string]any) map[string]any {
	out := maps.Clone(fields)
	m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if hidden, _ := proto.GetExtension(fd.Options(), v1.E_Secret).(bool); hidden {
			out[string(fd.Name())] = palyra.Secret{}.String()
		}
		return true
	})
	return out
}

// Known refuses a message that holds fields, at any depth, which this build does not know: nobody could say what
// they ask for, and no signature covers them.
func Known(m proto.Message) error {
	if !strange(m.ProtoReflect()) {
		return nil
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the request holds fields that this daemon does not know").
		WithRemedy("use a client of the daemon's version")
}

// strange reports whether m or a message in it has unknown fields.
func strange(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || found:
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					found = found || strange(v.Message())
					return !found
				})
			}
		case fd.IsList():
			for i := range v.List().Len() {
				found = found || strange(v.List().Get(i).Message())
			}
		default:
			found = strange(v.Message())
		}
		return !found
	})
	return found
}

// Codec is the JSON codec of the protocol: proto names and plain integers going
// out, the standard mapping coming in.
type Codec struct{}

var errNotMessage = errors.New("wire: not a protocol message")

// Name implements connect.Codec.
func (Codec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (Codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errNotMessage
	}
	return encode(m, false)
}

// Unmarshal implements connect.Codec.
func (Codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return errNotMessage
	}
	return decode(data, m, false)
}

// clip bounds outside text in an error.
func clip(s string) string { return palyra.Clip(s, 64) }

// Chunks returns a writer that sends what is written in pieces of a size that travels well. Flush sends the rest.
func Chunks(send func([]byte) error) *bufio.Writer {
	const piece = 64 << 10
	return bufio.NewWriterSize(sender(send), piece)
}

// sender is a writer that sends.
type sender func([]byte) error

// Write implements io.Writer.
func (s sender) Write(p []byte) (int, error) {
	if err := s(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
