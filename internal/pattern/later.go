package pattern

import (
	"regexp"
	"sync"
)

// Later is an expression of our own that is compiled when it is first asked for: most runs of a program need few of them, and
// all of them together are a part of what a command takes to start.
func Later(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
