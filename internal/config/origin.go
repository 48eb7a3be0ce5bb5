package config

import "slices"

// Source is a place values come from, weakest first.
type Source string

// The sources.
const (
	fromDefault Source = "default"
	fromSystem  Source = "system"
	fromUser    Source = "user"
	fromEnv     Source = "env"
	fromFlag    Source = "flag"
)

type origin struct {
	source Source
	where  string
}

// Origin is one value and the place it comes from.
type Origin struct {
	Key      string `json:"key"`
	Value    any    `json:"value"`    // int64, string or []string
	Text     string `json:"text"`     // what the key is for
	Variable string `json:"variable"` // of the environment; "" for those of providers, which have none
	Source   Source `json:"origin"`
	Where    string `json:"where,omitempty"` // file:line, variable or flag
}

// Origins lists every value with its place, in the order of the documentation.
func (c *Config) Origins() []Origin {
	out := make([]Origin, 0, len(settings))
	for _, s := range c.settings() {
		o := Origin{Key: s.key, Text: s.text, Variable: s.variable(), Source: fromDefault}
		if from, ok := c.origins[s.key]; ok {
			o.Source, o.Where = from.source, from.where
		}
		switch v := s.value(c).(type) {
		case *int64:
			o.Value = *v
		case *string:
			o.Value = *v
		case *[]string:
			o.Value = append([]string{}, *v...)
		}
		out = append(out, o)
	}
	return out
}

// Default reports whether nobody has set a key.
func (c *Config) Default(key string) bool {
	from, ok := c.origins[key]
	return !ok || from.source == fromDefault
}

// check looks at every value once the strongest place has spoken.
func (c *Config) check() []Problem {
	var problems []Problem
	for _, s := range c.settings() {
		if err := s.problem(c); err != nil {
			problems = append(problems, Problem{Where: c.origins[s.key].where, Key: s.key, Text: err.Error()})
		}
	}
	_, groups := c.ownGroups()
	return slices.Concat(problems, c.checkModels(), groups)
}
