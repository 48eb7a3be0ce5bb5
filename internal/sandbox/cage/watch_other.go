//go:build !linux

package cage

import "os"

// Watch notes nothing on this system.
type Watch struct{}

// Observe begins to note; see the one of Linux.
func Observe(*Cage, string, *os.File, []string) *Watch { return &Watch{} }

// End says that nothing is known.
func (*Watch) End() (terms []string, known bool) { return nil, false }
