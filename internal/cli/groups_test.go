//go:build linux

package cli

import (
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

// A group that has a list shows it when it is called alone.
func TestGroupsList(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	for _, group := range []string{"calls", "tools"} {
		code, alone, errs := s.Main(nil, group)
		_, listed, _ := s.Main(nil, group, "list")
		if code != exit.OK || alone == "" || alone != listed {
			t.Errorf("%s: %d %q %q, and list %q", group, code, alone, errs, listed)
		}
	}
}
