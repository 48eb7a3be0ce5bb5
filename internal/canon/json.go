package canon

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
)

// JSON returns v as compact JSON, without a newline: members in the order of their type, HTML characters as they are, so
// that people can read what a program printed. It is not the canonical form; equal values of one type have equal texts.
func JSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Strict reads the one JSON value in raw into v; members that v does not know and anything after the value are refused.
// Numbers of free form keep their digits. Spellings that encoding/json is lenient about show when v is written again.
func Strict(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("canon: data after the JSON value")
	}
	return nil
}

// Base64 decodes text that has no second spelling, of size bytes; 0 is any size.
func Base64(text string, size int) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(b) != text || (size > 0 && len(b) != size) {
		return nil, errors.New("canon: not canonical base64")
	}
	return b, nil
}
