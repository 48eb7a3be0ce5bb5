package skill

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"palyra"
)

// ManifestName is the name of the manifest's file.
const ManifestName = "skill.toml"

// MaxManifest is the largest manifest.
const MaxManifest = 128 << 10

// maxNesting bounds brackets within brackets, before anything is parsed.
const maxNesting = 64

// Parse reads a manifest.
func Parse(raw []byte) (Manifest, error) {
	var m Manifest
	switch {
	case len(raw) > MaxManifest:
		return m, bad("it has %d bytes, at most %d", len(raw), MaxManifest)
	case !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0:
		return m, bad("it is not UTF-8 text")
	case bytes.HasPrefix(raw, []byte("\ufeff")):
		return m, bad("it begins with a byte order mark")
	case nested(raw) > maxNesting:
		return m, bad("it is nested too deeply")
	}
	dec := toml.NewDecoder(bytes.NewReader(raw)).DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, unread(err)
	}
	var free map[string]any
	if err := toml.Unmarshal(raw, &free); err != nil {
		return Manifest{}, unread(err)
	}
	if key := otherCase(free); key != "" {
		return Manifest{}, bad("the member %q is written in another case", palyra.Clip(key, 64))
	}
	return Check(m)
}

// Write returns a manifest as text.
func Write(m Manifest) ([]byte, error) {
	var out bytes.Buffer
	enc := toml.NewEncoder(&out)
	enc.SetIndentTables(false)
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("skill: write: %w", err)
	}
	return out.Bytes(), nil
}

func bad(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, ReasonManifest, "%s: %s", ManifestName, fmt.Sprintf(format, args...)).
		WithRemedy("correct it and run 'palyra skills pack' again; docs/skills.md has every member of a manifest")
}

// unread says where a text could not be read, without repeating it.
func unread(err error) error {
	if strict := (*toml.StrictMissingError)(nil); errors.As(err, &strict) && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		line, _ := first.Position()
		key := ""
		for i, k := range first.Key() {
			if i > 0 {
				key += "."
			}
			key += k
		}
		if key == "capabilities.reveal" {
			return bad("line %d: no skill is shown the value of a secret: name its binding in capabilities.secrets, and use it in requests", line)
		}
		return bad("line %d: there is no member %q", line, palyra.Clip(key, 64))
	}
	if at := (*toml.DecodeError)(nil); errors.As(err, &at) {
		line, column := at.Position()
		return bad("line %d, column %d: it cannot be read as TOML", line, column)
	}
	return bad("it cannot be read as TOML")
}

// nested is how deep brackets go, strings included: a text that has more in a string is refused as well.
func nested(raw []byte) (most int) {
	depth := 0
	for _, b := range raw {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		most = max(most, depth)
	}
	return most
}

// otherCase finds a member that a lenient reader would take for one of ours.
func otherCase(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			for _, r := range key {
				if r != '_' && (r < 'a' || r > 'z') {
					return key
				}
			}
			if found := otherCase(v[key]); found != "" {
				return found
			}
		}
	case []any:
		for _, e := range v {
			if found := otherCase(e); found != "" {
				return found
			}
		}
	}
	return ""
}
