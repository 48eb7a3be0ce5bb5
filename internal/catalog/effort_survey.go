package catalog

import (
	"slices"

	"palyra/internal/pattern"
)

// survey looks at every part of the document, whether or not it is a schema: what
// only looks like a pattern counts too.
func (e *effort) survey(v any, states *int) error {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if err := e.survey(x, states); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := e.surveyObject(v, states); err != nil {
			return err
		}
		for _, x := range v {
			if err := e.survey(x, states); err != nil {
				return err
			}
		}
	}
	return nil
}

// surveyObject looks at one object.
func (e *effort) surveyObject(v map[string]any, states *int) error {
	if _, named := v["$id"].(string); named {
		return errRef
	}
	if _, err := e.target(v); err != nil {
		return err
	}
	if p, ok := v["pattern"].(string); ok {
		if err := e.weigh(p, states); err != nil {
			return err
		}
	}
	all, _ := v["patternProperties"].(map[string]any)
	for p := range all {
		if err := e.weigh(p, states); err != nil {
			return err
		}
	}
	return nil
}

// refers reports whether a part of the document refers to another.
func refers(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, refers)
	case map[string]any:
		if v["$ref"] != nil || v["$dynamicRef"] != nil {
			return true
		}
		for _, x := range v {
			if refers(x) {
				return true
			}
		}
	}
	return false
}

// checkableAlone reports whether a field can be checked without the rest of the document.
func (e *effort) checkableAlone(field string) bool {
	m, _ := e.root.(map[string]any)
	all, _ := m["properties"].(map[string]any)
	return !refers(all[field])
}

// weigh adds what a pattern takes when it is compiled.
func (e *effort) weigh(expr string, states *int) error {
	if len(expr) > maxPattern {
		return errPatterns
	}
	weight, err := pattern.Weight(expr)
	if err != nil {
		return nil // if it is one, the library says so
	}
	e.patterns[expr] = weight
	if *states += weight; *states > pattern.MaxWeight {
		return errPatterns
	}
	return nil
}
