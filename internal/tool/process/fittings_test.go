package process

import "testing"

// Without a workspace nothing can be told to lie in it: a profile is not taken then.
func TestFittingsNeedAWorkspace(t *testing.T) {
	for workspace, ok := range map[string]bool{"": false, "ws": false, "/ws": true} {
		if err := (Fittings{}).check(workspace); (err == nil) != ok {
			t.Errorf("%q: %v", workspace, err)
		}
	}
}
