package install

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"palyra"
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

// codexEvent is in the names that Codex has for hooks before a tool: file:event:entry:hook.
const codexEvent = ":pre_tool_use:"

// trustedHash is the digest that Codex was told to trust.
const trustedHash = "trusted_hash"

// CheckCodexConfig refuses settings that Codex cannot read: it does not start with them.
func CheckCodexConfig(path string) error {
	doc, _, err := read(path, unreadable)
	if err != nil {
		return err
	}
	if _, err := (tomlForm{}).decode(doc); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s: Codex cannot read its settings: %v", path, err).
			WithRemedy("mend it and install again: Codex does not start with it, and the trust for the hook goes there")
	}
	return nil
}

// TrustCodexHook writes into Codex's settings that the hook of this name may run as long as it has this digest, as its
// own window does when a person says so.
func TrustCodexHook(path, key, hash string) (Result, error) {
	return rewrite(path, private, codexHolds(path), unreadable, func(old []byte) ([]byte, error) { return withTrust(old, key, hash) })
}

// codexHolds reports of Codex's settings whether Palyra is in them.
func codexHolds(path string) holds {
	c, _ := Find("codex")
	return c.holds(path)
}

// tells reports whether Palyra may have said something of hooks in settings. Whose hooks these are cannot be told: so it is
// taken for Palyra's where the settings from before are kept already, or would be nothing.
func tells(path string, settings map[string]any) bool {
	states, _ := within(settings, codexStates...).(map[string]any)
	for key := range states {
		if !strings.Contains(key, codexEvent) {
			continue
		}
		hooks, _ := settings[codexStates[0]].(map[string]any)
		_, err := os.Lstat(path + keptAs)
		return err == nil || len(settings) == 1 && len(hooks) == 1
	}
	return false
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
	if state[trustedHash] == hash {
		return doc, nil
	}
	had := len(state) > 0
	state[trustedHash] = hash
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

// CodexHookKeys are the names by which Codex knows our hooks of a file.
func CodexHookKeys(file string) (keys []string) {
	doc, _, err := read(file, unreadable)
	if err != nil {
		return nil
	}
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return nil
	}
	list, _ := hookList(settings, hookPath)
	names := []string{file}
	if real, err := filepath.EvalSymlinks(file); err == nil && real != file {
		names = append(names, real)
	}
	for i, e := range list {
		if CodexHooks.ours(e) {
			for _, name := range names {
				keys = append(keys, fmt.Sprintf("%s%s%d:0", name, codexEvent, i))
			}
		}
	}
	return keys
}

// DistrustCodexHooks takes what Codex was told of the hooks of these names out of its settings, where that is nothing but a
// digest to trust. Settings that only such lines were in are gone then.
func DistrustCodexHooks(path string, keys []string) (Result, error) {
	return rewrite(path, private, codexHolds(path), leaveTrust, func(old []byte) ([]byte, error) {
		doc := old
		for _, key := range keys {
			var err error
			if doc, err = withoutTrust(doc, key); err != nil {
				return nil, err
			}
		}
		if old != nil && len(doc) != len(old) && strings.TrimSpace(string(doc)) == "" && before(path, codexHolds(path)) == "" {
			return nil, nil
		}
		return doc, nil
	})
}

// withoutTrust returns settings without the digest of a hook.
func withoutTrust(doc []byte, key string) ([]byte, error) {
	settings, err := tomlForm{}.decode(doc)
	if err != nil {
		return nil, leaveTrust(err)
	}
	states, _ := within(settings, codexStates...).(map[string]any)
	state, ok := states[key].(map[string]any)
	switch {
	case !ok:
		return doc, nil
	case len(state) != 1 || state[trustedHash] == nil:
		return nil, leaveTrust(fmt.Errorf("what it says of %q is more than a digest to trust", key))
	}
	e, err := tomlForm{}.cut(doc, append(codexStates, key))
	if err != nil {
		return nil, leaveTrust(errWriting)
	}
	out := e.apply(doc)
	delete(states, key)
	after, err := tomlForm{}.decode(out)
	if err != nil || !reflect.DeepEqual(noStates(after), noStates(settings)) {
		return nil, leaveTrust(errWriting)
	}
	return out, nil
}

// noStates is settings without a table of hooks' states that is empty.
func noStates(settings map[string]any) any {
	if hooks, ok := settings[codexStates[0]].(map[string]any); ok {
		if states, ok := hooks[codexStates[1]].(map[string]any); ok && len(states) == 0 {
			delete(hooks, codexStates[1])
		}
	}
	return bare(settings, codexStates[0])
}

func leaveTrust(why error) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the file is left as it is: %v", why).
		WithRemedy("take the trusted_hash of Palyra's hook out of [hooks.state] by hand; without the hook it is of no use")
}

// within is the value at a path of decoded settings; nil where there is none.
func within(m map[string]any, path ...string) any {
	for _, key := range path[:len(path)-1] {
		m, _ = m[key].(map[string]any)
	}
	return m[path[len(path)-1]]
}
