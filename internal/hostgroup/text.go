package hostgroup

import (
	"fmt"
	"strings"
)

// Text names a group, and its hosts as far as a line has room.
func (g Group) Text() string {
	const most = 4
	list, more := g.Places(), ""
	for i, at := range list {
		list[i] = strings.TrimSuffix(at, ":443")
	}
	if len(list) > most {
		list, more = list[:most], fmt.Sprintf(" and %d more", len(list)-most)
	}
	return g.Name + " (" + strings.Join(list, ", ") + more + ")"
}
