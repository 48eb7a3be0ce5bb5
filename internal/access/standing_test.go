package access

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func (b *bench) standingOf(p, owner palyra.Principal) palyra.Standing {
	b.t.Helper()
	s, err := b.Standing(b.t.Context(), p, owner)
	b.must(err)
	return s
}

func TestStandingFollowsTheRegistry(t *testing.T) {
	b := newBench(t)
	want := func(p, owner palyra.Principal, s palyra.Standing) {
		t.Helper()
		for range 2 { // the second time out of memory
			if d := cmp.Diff(s, b.standingOf(p, owner)); d != "" {
				t.Errorf("%s of %s: %s", p, owner, d)
			}
		}
	}
	agent := []palyra.Role{palyra.RoleAgent}
	want("agent:local", "user:alice", palyra.Standing{Roles: agent, Owner: []palyra.Role{palyra.RoleOwner}})
	want("user:bob", "", palyra.Standing{})
	_, err := b.addUser(b.owner, "bob", palyra.RoleOperator)
	b.must(err)
	want("user:bob", "", palyra.Standing{Roles: []palyra.Role{palyra.RoleOperator}})
	want("agent:x", "user:bob", palyra.Standing{Roles: agent, Owner: []palyra.Role{palyra.RoleOperator}})
	phone, _ := b.pair("phone", "bob", palyra.RoleApprover)
	want("agent:device.phone", "user:bob", palyra.Standing{Roles: agent, Owner: []palyra.Role{palyra.RoleOperator}, Device: phone.ID})
	want("device:phone", "user:bob", palyra.Standing{
		Roles: []palyra.Role{palyra.RoleApprover}, Owner: []palyra.Role{palyra.RoleOperator},
		Device: phone.ID,
	})
	want(palyra.Principal("device:"+phone.ID), "", palyra.Standing{Roles: []palyra.Role{palyra.RoleApprover}, Device: phone.ID})

	b.must(b.changeUser(b.owner, "bob", palyra.RoleViewer))
	want("agent:x", "user:bob", palyra.Standing{Roles: agent, Owner: []palyra.Role{palyra.RoleViewer}})
	want("device:phone", "", palyra.Standing{Roles: []palyra.Role{palyra.RoleViewer}, Device: phone.ID})
	b.must(b.RemoveUser(t.Context(), "user:bob", b.sign(b.owner, nil)))
	want("user:bob", "", palyra.Standing{})
	want("agent:x", "user:bob", palyra.Standing{Roles: agent})
	want("device:phone", "user:bob", palyra.Standing{})
	want("agent:device.phone", "", palyra.Standing{Roles: agent})
	want("system:cron", "", palyra.Standing{})
	want("nonsense", "", palyra.Standing{})
}

// Whoever asks after a change was acknowledged hears of it, however many ask while
// it is made.
func TestStandingIsNeverStale(t *testing.T) {
	b := newBench(t)
	_, err := b.addUser(b.owner, "bob", palyra.RoleViewer)
	b.must(err)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := b.Standing(t.Context(), "user:bob", ""); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for i := range 40 {
		role := []palyra.Role{palyra.RoleViewer, palyra.RoleOperator, palyra.RoleAdmin}[i%3]
		b.must(b.changeUser(b.owner, "bob", role))
		if got := b.standingOf("user:bob", ""); len(got.Roles) != 1 || got.Roles[0] != role {
			t.Errorf("after the change to %s: %v", role, got.Roles)
		}
		if got, _, err := b.Cap(t.Context(), "user:bob"); err != nil || got != role {
			t.Errorf("after the change to %s: %s, %v", role, got, err)
		}
	}
	close(stop)
	wg.Wait()
}
