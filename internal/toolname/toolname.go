// Package toolname maps the names of tools to those that model APIs and MCP clients take, [A-Za-z0-9_-]{1,64}, and
// back: palyra.fs.read is palyra_fs_read there.
//
// Promises: a table is injective, whatever names the catalog has, and does not depend on their order: names that
// would meet, or are too long, get a digest of their own name at the end. A name that needs none is the same in
// every table. Names that meet all the same, which somebody must have made so, are in none.
package toolname

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
)

const (
	// Max is the longest name that models and clients take.
	Max    = 64
	suffix = 10 // hex digits of the digest, with the sign before them
)

// Encode returns the name of a tool for models, as long as no other tool of the
// catalog wants it too: a Table knows.
func Encode(name string) string {
	plain := strings.Map(sign, name)
	if plain == "" || len(plain) > Max {
		return marked(name)
	}
	return plain
}

// sign is what a character of a name becomes.
func sign(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
		return r
	}
	return '_'
}

// marked is a name that is its own by a digest.
func marked(name string) string {
	plain := strings.Map(sign, name)
	sum := sha256.Sum256([]byte(name))
	return plain[:min(len(plain), Max-suffix)] + "_" + hex.EncodeToString(sum[:])[:suffix-1]
}

// Map is the names of a catalog, both ways.
type Map struct {
	out map[string]string
	in  map[string]string
}

// Table maps the names of a catalog.
func Table(names []string) Map {
	wanted := map[string]int{}
	seen := map[string]bool{}
	for _, n := range names {
		if !seen[n] {
			wanted[Encode(n)]++
		}
		seen[n] = true
	}
	m := Map{out: make(map[string]string, len(seen)), in: make(map[string]string, len(seen))}
	met := map[string]bool{}
	for n := range seen {
		code := Encode(n)
		if wanted[code] > 1 {
			code = marked(n)
		}
		if _, taken := m.in[code]; taken {
			met[code] = true
		}
		m.out[n], m.in[code] = code, n
	}
	for code := range met {
		delete(m.in, code)
	}
	maps.DeleteFunc(m.out, func(_, code string) bool { return met[code] })
	return m
}

// Encode returns a tool's name for models; false when the table does not have it.
func (m Map) Encode(name string) (string, bool) {
	code, ok := m.out[name]
	return code, ok
}

// Decode returns the tool that a model means; false when it means none.
func (m Map) Decode(code string) (string, bool) {
	name, ok := m.in[code]
	return name, ok
}
