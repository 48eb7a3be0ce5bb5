package config

import (
	"slices"
	"strings"
)

// envPrefix starts the name of every variable of ours.
const envPrefix = "PALYRA_"

// environ makes name=value pairs into a lookup. The last one of a name holds, as it does for a process.
func environ(pairs []string) map[string]string {
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		if name, value, ok := strings.Cut(p, "="); ok {
			m[name] = value
		}
	}
	return m
}

// fromEnv takes the values that the environment names. A variable that looks like a setting and is not one is
// a spelling mistake, and an error.
func (c *Config) fromEnv(pairs []string) []Problem {
	env := environ(pairs)
	known := map[string]bool{}
	var problems []Problem
	for _, s := range settings {
		name := s.variable()
		known[name] = true
		value, ok := env[name]
		if s.was != "" {
			former := variableOf(s.was)
			known[former] = true
			if v, set := env[former]; set {
				if ok {
					problems = append(problems, Problem{Where: name, Key: s.key, Text: s.errTwice().Error()})
				}
				name, value, ok = former, v, true
			}
		}
		if !ok {
			continue
		}
		c.origins[s.key] = origin{fromEnv, name}
		if err := s.parse(c, value); err != nil {
			problems = append(problems, Problem{Where: name, Key: s.key, Text: err.Error()})
		}
	}
	for name := range env {
		if !known[name] && looksLikeSetting(name) {
			problems = append(problems, Problem{Where: name, Text: "no setting has this variable"})
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Where, b.Where) })
	return problems
}

// looksLikeSetting reports whether a variable starts with the name of a section.
func looksLikeSetting(name string) bool {
	rest, ok := strings.CutPrefix(name, envPrefix)
	if !ok {
		return false
	}
	if strings.HasPrefix(rest, "PROVIDERS_") { // they have names of their own, and no variables
		return true
	}
	for _, s := range settings {
		section, _, _ := strings.Cut(s.key, ".")
		if strings.HasPrefix(rest, strings.ToUpper(section)+"_") {
			return true
		}
	}
	return false
}

// fromFlags takes the values the command line names.
func (c *Config) fromFlags(flags map[string]string) []Problem {
	keys := make([]string, 0, len(flags))
	for key := range flags {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var problems []Problem
	for _, key := range keys {
		where := "--set " + key
		s, ok := find(key)
		if !ok {
			problems = append(problems, Problem{Where: where, Key: key, Text: "unknown key"})
			continue
		}
		if _, both := flags[s.key]; both && key == s.was {
			problems = append(problems, Problem{Where: where, Key: s.key, Text: s.errTwice().Error()})
			continue
		}
		c.origins[s.key] = origin{fromFlag, where}
		if err := s.parse(c, flags[key]); err != nil {
			problems = append(problems, Problem{Where: where, Key: key, Text: err.Error()})
		}
	}
	return problems
}
