package palyra

import (
	"fmt"
	"runtime"
)

const redacted = "[redacted]"

// Secret holds a value that must not be seen. It prints, formats and marshals as "[redacted]" whatever verb is used;
// Use is the only way to the bytes. Destroy overwrites them, as best Go allows: copies made by the runtime or by a
// callee are out of reach.
//
// The bytes lie behind a function: fmt cannot call Format on a Secret in an unexported field and walks the value
// instead, where it follows pointers and prints slices, but a function is only an address to it.
type Secret struct{ box *box }

type box struct{ open func() *[]byte }

// NewSecret takes over b; the caller must not keep it.
func NewSecret(b []byte) Secret { return Secret{&box{func() *[]byte { return &b }}} }

// Use calls f with the bytes, which f must not keep.
func (s Secret) Use(f func([]byte) error) error {
	if s.box == nil {
		return f(nil)
	}
	defer runtime.KeepAlive(s.box)
	return f(*s.box.open())
}

// Empty reports whether there is nothing in s.
func (s Secret) Empty() bool { return s.box == nil || len(*s.box.open()) == 0 }

// Destroy overwrites and drops the bytes.
func (s Secret) Destroy() {
	if s.box == nil {
		return
	}
	b := s.box.open()
	clear(*b)
	*b = nil
}

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return redacted }

// Format implements fmt.Formatter for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler, and so covers JSON, TOML, slog.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
