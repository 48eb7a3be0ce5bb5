package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"palyra"
)

// leaveHooks words why settings are left alone.
func leaveHooks(why error) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the file is left as it is: %v", why).
		WithRemedy("look for `palyra hook` in it, and take it out by hand")
}

// WithoutHook returns settings without the entries of ours. Settings that have none
// are returned as they are. A list or table with nothing left in it goes too.
func WithoutHook(f HookForm, doc []byte) (_ []byte, err error) {
	for _, path := range f.paths {
		if doc, err = f.withoutAt(doc, path); err != nil {
			return nil, err
		}
	}
	if f.ends != nil {
		return f.withoutAt(doc, f.ends)
	}
	return doc, nil
}

// withoutAt takes our entries out of one list.
func (f HookForm) withoutAt(doc []byte, path []string) ([]byte, error) {
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return nil, leaveHooks(err)
	}
	list, err := hookList(settings, path)
	if err != nil {
		return nil, leaveHooks(err)
	}
	p, err := locate(doc, path)
	if errors.Is(err, errNone) && len(list) == 0 {
		return doc, nil
	}
	if err != nil {
		return nil, leaveHooks(err)
	}
	others, err := f.otherHooks(list)
	if err != nil {
		return nil, leaveHooks(err)
	}
	if len(others) == len(list) {
		return doc, nil
	}
	want, err := put(settings, path, others)
	if err != nil {
		return nil, leaveHooks(err)
	}
	out := f.hooksCut(doc, path, p, len(others)).apply(doc)
	after, err := jsonForm{}.decode(out)
	if err != nil || !reflect.DeepEqual(noHooks(after, path), noHooks(want, path)) {
		return nil, leaveHooks(errWriting)
	}
	return out, nil
}

// otherHooks are the entries that are not ours. One that runs our hook and more is neither.
func (f HookForm) otherHooks(list []any) ([]any, error) {
	out := []any{}
	for _, e := range list {
		if f.ours(e) {
			continue
		}
		if slices.ContainsFunc(commandsOf(e), f.marked) {
			return nil, errors.New("one entry has the hook of Palyra and others")
		}
		out = append(out, e)
	}
	return out, nil
}

// hooksCut changes the list at p, or takes out what is empty without our entries.
func (f HookForm) hooksCut(doc []byte, path []string, p place, others int) edit {
	if others > 0 {
		return edit{from: p.from, to: p.to, with: string(f.unhooked(doc[p.from:p.to]))}
	}
	if p.members == 1 {
		if hooks, err := locate(doc, path[:1]); err == nil {
			return hooks.removeMember(doc)
		}
	}
	return p.removeMember(doc)
}

// unhooked is the text of a list without the entries of ours, the others as they are written.
func (f HookForm) unhooked(list []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(list))
	if _, err := dec.Token(); err != nil {
		return list
	}
	last := int(dec.InputOffset())
	out := bytes.Clone(list[:last])
	for begun := false; dec.More(); {
		var text json.RawMessage
		if err := dec.Decode(&text); err != nil {
			return list
		}
		end := int(dec.InputOffset())
		piece := bytes.Replace(list[last:end-len(text)], []byte(","), nil, 1) // the space before it
		last = end
		var e any
		if err := json.Unmarshal(text, &e); err != nil || f.ours(e) {
			continue
		}
		if begun {
			out = append(out, ',')
		}
		out, begun = append(append(out, piece...), text...), true
	}
	return append(out, list[last:]...)
}

// noHooks is settings without a list or table of hooks that is empty.
func noHooks(settings map[string]any, path []string) any {
	if hooks, ok := settings[path[0]].(map[string]any); ok {
		if list, ok := hooks[path[1]].([]any); ok && len(list) == 0 {
			delete(hooks, path[1])
		}
	}
	return bare(settings, path[0])
}

// RemoveHook takes our entries out of a settings file, which need not exist. One
// that was made for them, as no older file is kept beside it, goes with them.
func RemoveHook(f HookForm, path string) (Result, error) {
	return rewrite(path, private, f.holds, leaveHooks, func(old []byte) ([]byte, error) {
		if f.whole != nil {
			if old == nil || strings.Contains(string(old), f.mark) {
				return nil, nil
			}
			return old, nil
		}
		doc, err := WithoutHook(f, old)
		if err != nil || bytes.Equal(doc, old) {
			return doc, err
		}
		if before(path, f.holds) != "" {
			return doc, nil
		}
		if rest, err := (jsonForm{}).decode(doc); err == nil && f.nothingElse(rest) {
			return nil, nil
		}
		return doc, nil
	})
}

// nothingElse reports whether settings have nothing but what the agent wants in every file.
func (f HookForm) nothingElse(settings map[string]any) bool {
	return len(settings) == 0 || reflect.DeepEqual(numbers(settings), numbers(map[string]any(f.plain)))
}
