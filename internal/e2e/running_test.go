//go:build linux

package e2e

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// That a call runs is told to whoever made it, and to one who attaches afterwards.
func TestRunningIsTold(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	agent := d.client(client.AgentDoor)
	hear := func(into *[]string, id chan<- palyra.CallID) func(client.CallEvent) {
		var call palyra.CallID
		return func(e client.CallEvent) {
			switch {
			case e.Accepted != nil:
				call = e.Accepted.CallID
				*into = append(*into, "accepted")
			case e.Running != nil:
				*into = append(*into, "running")
				id <- call
			}
		}
	}
	var first, late []string
	running, again, ends := make(chan palyra.CallID, 2), make(chan palyra.CallID, 2), make(chan error, 2)
	go func() {
		_, err := agent.Call(t.Context(), client.CallRequest{
			Tool: "palyra.sleep", Arguments: json.RawMessage(`{"duration_ms":60000}`), Workspace: d.work,
		}, hear(&first, running))
		ends <- err
	}()
	id := await(t, running)
	go func() {
		_, err := agent.WatchCall(t.Context(), id, hear(&late, again))
		ends <- err
	}()
	if got := await(t, again); got != id {
		t.Errorf("attached to %s, not to %s", got, id)
	}
	if err := agent.CancelCall(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := await(t, ends); err != nil {
			t.Error(err)
		}
	}
	for _, got := range [][]string{first, late} {
		if !slices.Equal(got, []string{"accepted", "running"}) {
			t.Errorf("heard %v", got)
		}
	}
}

// await takes one value, and does not wait for ever.
func await[T any](t *testing.T, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(waitMost):
		t.Fatal("waited in vain")
	}
	return v
}
