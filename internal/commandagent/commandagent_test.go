package commandagent_test

import (
	"fmt"
	"testing"

	"palyra"
	"palyra/internal/commandagent"
)

func TestCommandAgents(t *testing.T) {
	a := commandagent.Of("user:ann")
	if a.Principal != "agent:user.ann" || a.Owner != "user:ann" || !commandagent.Is(a.Principal) {
		t.Errorf("%+v", a)
	}
	for _, p := range []palyra.Principal{"agent:local", "user:user.ann", "agent:users", ""} {
		if commandagent.Is(p) {
			t.Error(fmt.Sprint(p))
		}
	}
}
