package catalog

import (
	"fmt"
	"maps"
	"slices"

	"palyra"
)

// Usable refuses a tool that could not be in any catalog.
func (c *Catalog) Usable(t palyra.Tool) error {
	if _, err := newKnown("", t); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "%s", err)
	}
	return nil
}

// Offer replaces the tools of a group, all of them or none. A name that another
// group has, or that is always there, is refused.
func (c *Catalog) Offer(group string, tools []palyra.Tool) error {
	fresh := map[palyra.ToolName]known{}
	for _, t := range tools {
		k, err := newKnown(group, t)
		if err != nil {
			return fmt.Errorf("catalog: offer: %w", err)
		}
		if _, dup := fresh[t.Name]; dup {
			return fmt.Errorf("catalog: offer: two tools are called %q", t.Name)
		}
		fresh[t.Name] = k
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range fresh {
		if k, taken := c.byName[name]; taken && (k.group != group || group == "") {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "there is a tool called %q already", name)
		}
	}
	maps.DeleteFunc(c.byName, func(_ palyra.ToolName, k known) bool { return group != "" && k.group == group })
	maps.Copy(c.byName, fresh)
	c.names = slices.Sorted(maps.Keys(c.byName))
	return nil
}
