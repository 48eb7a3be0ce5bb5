// Package mask finds values that must not be seen in whatever leaves, and puts their names there instead.
//
// A value is known in the forms in which programs print it: as it is, in base64 (both alphabets, wherever it stands in
// a longer text, and wrapped as the usual tools wrap it), in hexadecimal, percent-encoded, and as JSON and Go write it
// in strings. Each form is a keyed digest, and so is its beginning: no value lies here, and the keys are made anew
// with every table and never leave the process. Whoever reads the daemon's memory can test guesses, no more.
//
// Promises: a form of a known value is in nothing that a Masker gives back, however a stream was cut into writes; what
// has none comes back as it was, and Bytes then returns the same slice. Values under 12 bytes are never known: masking
// those would tell them.
//
// It does not find parts of a value, nor a value that was written in another way (reversed, compressed, encrypted, in
// base64 within base64): masking keeps secrets out of records by accident. It does not stop a program that wants to
// tell one; what a program is not given, it cannot tell.
package mask

import (
	"iter"
	"sync"
	"sync/atomic"
)

// Least is how many bytes a value has that can be known.
const Least = 12

// Masker masks. The zero Masker, and a nil one, knows nothing and changes nothing. Its methods may be called from many
// goroutines.
type Masker struct {
	table atomic.Pointer[table]
	mu    sync.Mutex // held by who changes the table
}

// Set makes the values of names the ones that are known, in place of all before. It keeps no value that it is given.
func (m *Masker) Set(known iter.Seq2[string, []byte]) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := newTable()
	for name, value := range known {
		t.learn(name, value)
	}
	m.table.Store(t.finished())
}

// Add makes the values of names known as well.
func (m *Masker) Add(known iter.Seq2[string, []byte]) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table.Load().more()
	for name, value := range known {
		t.learn(name, value)
	}
	m.table.Store(t.finished())
}

// current is what is known now; nil: nothing.
func (m *Masker) current() *table {
	if m == nil {
		return nil
	}
	return m.table.Load()
}

// Empty reports whether nothing is known.
func (m *Masker) Empty() bool { return m.current() == nil }

// Bytes returns b with names in the place of values: b itself where there is none, else a copy.
func (m *Masker) Bytes(b []byte) []byte {
	t := m.current()
	if t == nil || len(b) < Least {
		return b
	}
	at, found := t.find(b, 0)
	if found.end == 0 {
		return b
	}
	out, done := make([]byte, 0, len(b)), 0
	for found.end != 0 {
		out = append(append(out, b[done:at]...), t.marks[found.mark]...)
		done = found.end
		at, found = t.find(b, done)
	}
	return append(out, b[done:]...)
}

// String is Bytes of a string.
func (m *Masker) String(s string) string {
	if m.current() == nil || len(s) < Least {
		return s
	}
	b := []byte(s)
	if out := m.Bytes(b); len(out) != len(b) || &out[0] != &b[0] {
		return string(out)
	}
	return s
}

// Has reports whether a text has a value in it.
func (m *Masker) Has(s string) bool { return m.String(s) != s }
