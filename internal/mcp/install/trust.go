package install

import (
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"strconv"
)

// CodexConfig is Codex's settings file of the user.
func CodexConfig(p Places) string { return filepath.Join(p.codexHome(), "config.toml") }

// codexHome is where Codex keeps what is the user's.
func (p Places) codexHome() string {
	if p.Codex != "" {
		return p.Codex
	}
	return filepath.Join(p.Home, ".codex")
}

// Mark is in every command line of ours of this form.
func (f HookForm) Mark() string { return f.mark }

// codexStates is where Codex keeps what it was told of hooks.
var codexStates = []string{"hooks", "state"}

// TrustCodexHook writes into Codex's settings that the hook of this name may run as long as it has this digest, as its
// own window does when a person says so.
func TrustCodexHook(path, key, hash string) (Result, error) {
	return rewrite(path, private, unreadable, func(old []byte) ([]byte, error) { return withTrust(old, key, hash) })
}

// withTrust returns settings with the digest in them.
func withTrust(doc []byte, key, hash string) ([]byte, error) {
	if key == "" || hash == "" {
		return nil, unreadable(errors.New("no digest is named by Codex"))
	}
	settings, err := tomlForm{}.decode(doc)
	if err != nil {
		return nil, unreadable(err)
	}
	state := map[string]any{}
	if old, ok := within(settings, append(codexStates, key)...).(map[string]any); ok {
		maps.Copy(state, old)
	}
	if state["trusted_hash"] == hash {
		return doc, nil
	}
	had := len(state) > 0
	state["trusted_hash"] = hash
	want, err := put(settings, append(codexStates, key), state)
	if err != nil {
		return nil, err
	}
	out := doc
	if had {
		e, err := tomlForm{}.cut(doc, append(codexStates, key))
		if err != nil {
			return nil, unreadable(errWriting)
		}
		out = e.apply(doc)
	}
	if out, err = (tomlForm{}).set(out, append(codexStates, strconv.Quote(key)), state); err != nil {
		return nil, err
	}
	after, err := tomlForm{}.decode(out)
	if err != nil || !reflect.DeepEqual(normal(after), normal(want)) {
		return nil, unreadable(errWriting)
	}
	return out, nil
}

// within is the value at a path of decoded settings; nil where there is none.
func within(m map[string]any, path ...string) any {
	for _, key := range path[:len(path)-1] {
		m, _ = m[key].(map[string]any)
	}
	return m[path[len(path)-1]]
}
