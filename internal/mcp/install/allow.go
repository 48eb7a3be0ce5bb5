package install

import (
	"errors"
	"reflect"
	"slices"

	"palyra"
)

// AllowRule lets Claude Code use the tools of Palyra's server without asking by itself: the gate asks.
const AllowRule = "mcp__" + entryName

// allowPath is the place of Claude Code's rules about tools that it need not ask for.
var allowPath = []string{"permissions", "allow"}

// rules is the list of them.
func rules(settings map[string]any) ([]any, error) {
	table, ok := settings[allowPath[0]].(map[string]any)
	if !ok && settings[allowPath[0]] != nil {
		return nil, errors.New(`"permissions" is not a table in it`)
	}
	switch list := table[allowPath[1]].(type) {
	case nil:
		return nil, nil
	case []any:
		return list, nil
	}
	return nil, errors.New(`"allow" is not a list in it`)
}

// WithRule returns settings with the rule in them, or without it.
func WithRule(doc []byte, in bool) ([]byte, error) {
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return nil, leaveRules(err)
	}
	list, err := rules(settings)
	if err != nil {
		return nil, leaveRules(err)
	}
	if slices.Contains(list, any(AllowRule)) == in {
		return doc, nil
	}
	if in {
		list = append(slices.Clone(list), AllowRule)
	} else {
		list = slices.DeleteFunc(slices.Clone(list), func(r any) bool { return r == AllowRule })
	}
	var out []byte
	if len(list) > 0 {
		out, err = jsonForm{}.set(doc, allowPath, list)
	} else {
		out, err = withoutRules(doc)
	}
	if err != nil {
		return nil, leaveRules(err)
	}
	want, err := put(settings, allowPath, list)
	if err != nil {
		return nil, leaveRules(err)
	}
	after, err := jsonForm{}.decode(out)
	if err != nil || !reflect.DeepEqual(noRules(after), noRules(want)) {
		return nil, leaveRules(errWriting)
	}
	return out, nil
}

// withoutRules takes the list out, and the table around it if that has nothing else.
func withoutRules(doc []byte) ([]byte, error) {
	p, err := locate(doc, allowPath)
	if err != nil {
		return nil, err
	}
	if p.members == 1 {
		if p, err = locate(doc, allowPath[:1]); err != nil {
			return nil, err
		}
	}
	return p.removeMember(doc).apply(doc), nil
}

// noRules is settings without a list or table of rules that is empty.
func noRules(settings map[string]any) any {
	if table, ok := settings[allowPath[0]].(map[string]any); ok {
		if list, ok := table[allowPath[1]].([]any); ok && len(list) == 0 {
			delete(table, allowPath[1])
		}
	}
	return numbers(bare(settings, allowPath[0]))
}

func leaveRules(why error) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the file is left as it is: %v", why).
		WithRemedy("put %q into the list permissions.allow by hand, or take it out", AllowRule)
}

// Allow writes the rule into Claude Code's settings, which need not exist, or takes it out.
func Allow(path string, in bool) (Result, error) {
	return rewrite(path, private, ClaudeHooks.holds, leaveRules, func(old []byte) ([]byte, error) {
		doc, err := WithRule(old, in)
		if err != nil || in || old == nil {
			return doc, err
		}
		if rest, err := (jsonForm{}).decode(doc); err == nil && len(rest) == 0 {
			return nil, nil
		}
		return doc, nil
	})
}
