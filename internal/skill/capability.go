package skill

import (
	"reflect"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/subpath"
)

// lists are the kinds of capabilities with their names, in the order of the manifest.
func (c *Capabilities) lists() []struct {
	Name string
	At   *[]string
} {
	return []struct {
		Name string
		At   *[]string
	}{
		{"hosts", &c.Hosts},
		{"secrets", &c.Secrets},
		{"storage", &c.Storage},
		{"tools", &c.Tools},
		{"channels", &c.Channels},
		{"programs", &c.Programs},
		{"read", &c.Read},
		{"write", &c.Write},
	}
}

// Kinds are the kinds of capabilities, in order.
func Kinds() (out []string) {
	for _, l := range new(Capabilities).lists() {
		out = append(out, l.Name)
	}
	return out
}

// Of returns the capabilities of one kind.
func (c Capabilities) Of(kind string) []string {
	for _, l := range c.lists() {
		if l.Name == kind {
			return *l.At
		}
	}
	return nil
}

// Empty reports whether nothing is asked for.
func (c Capabilities) Empty() bool { return reflect.DeepEqual(c.Tidy(), Capabilities{}) }

// Tidy returns c in its one form: sorted, each once, nil where there is none.
func (c Capabilities) Tidy() Capabilities {
	for _, l := range c.lists() {
		if *l.At = slices.Compact(slices.Sorted(slices.Values(*l.At))); len(*l.At) == 0 {
			*l.At = nil
		}
	}
	return c
}

// Missing returns what of c is not in of, as KIND:VALUE.
func (c Capabilities) Missing(of Capabilities) (out []string) {
	for _, l := range c.lists() {
		have := of.Of(l.Name)
		for _, v := range *l.At {
			if !has(l.Name, have, v) && !(l.Name == "read" && has(l.Name, of.Write, v)) {
				out = append(out, l.Name+":"+v)
			}
		}
	}
	return out
}

// has reports whether a value is among those of a kind. Paths are there with what is below them.
func has(kind string, all []string, v string) bool {
	if kind != "read" && kind != "write" {
		return slices.Contains(all, v)
	}
	return slices.ContainsFunc(all, func(top string) bool { return subpath.Within(top, v) })
}

// Least returns c without paths that others of it have below them. Where there are more than a manifest can have, those are
// taken together that lie in one directory.
func (c Capabilities) Least() Capabilities {
	for _, at := range []*[]string{&c.Read, &c.Write} {
		all := slices.Clone(*at)
		for depth := 8; len(all) > maxOfKind && depth > 0; depth-- {
			for i, p := range all {
				if parts := strings.Split(p, "/"); len(parts) > depth {
					all[i] = strings.Join(parts[:depth], "/")
				}
			}
			slices.Sort(all)
			all = slices.Compact(all)
		}
		if len(all) > maxOfKind {
			all = []string{"."}
		}
		*at = slices.DeleteFunc(slices.Clone(all), func(p string) bool {
			return slices.ContainsFunc(all, func(o string) bool { return o != p && has("read", []string{o}, p) })
		})
	}
	c.Read = slices.DeleteFunc(c.Read, func(p string) bool { return has("read", c.Write, p) })
	return c.Tidy()
}

// Within returns what of c is also in of.
func (c Capabilities) Within(of Capabilities) Capabilities {
	for _, l := range c.lists() {
		have := of.Of(l.Name)
		*l.At = slices.DeleteFunc(slices.Clone(*l.At), func(v string) bool { return !has(l.Name, have, v) })
	}
	return c.Tidy()
}

// Add returns c with more of one kind.
func (c Capabilities) Add(kind string, values ...string) Capabilities {
	for _, l := range c.lists() {
		*l.At = slices.Clone(*l.At)
		if l.Name == kind {
			*l.At = append(*l.At, values...)
		}
	}
	return c.Tidy()
}

// Lines are the capabilities for people, one of each kind that there is.
func (c Capabilities) Lines() (out []string) {
	for _, l := range c.lists() {
		if len(*l.At) > 0 {
			out = append(out, l.Name+": "+strings.Join(*l.At, ", "))
		}
	}
	return out
}

// Terms are the capabilities as KIND:VALUE, never nil.
func (c Capabilities) Terms() []string { return append([]string{}, c.Missing(Capabilities{})...) }

// CapabilitiesOf reads terms.
func CapabilitiesOf(terms []string) (Capabilities, error) {
	var c Capabilities
	for _, t := range terms {
		kind, value, ok := strings.Cut(t, ":")
		if !ok || value == "" || !slices.Contains(Kinds(), kind) {
			return Capabilities{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is no capability", palyra.Clip(t, 64)).
				WithRemedy("write KIND:VALUE, with one of: %s", strings.Join(Kinds(), ", "))
		}
		c = c.Add(kind, value)
	}
	return c, nil
}
