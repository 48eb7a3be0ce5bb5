package bundle

import (
	"context"
	"slices"
	"testing"
	"time"

	"palyra"
)

// An owner who is bound to workspaces changes no policy, and so is none who could
// repair it; nor is one who was removed.
func TestBoundOwnersDoNotCount(t *testing.T) {
	b := &Bundles{Config: Config{Users: func(context.Context) ([]palyra.User, error) {
		return []palyra.User{
			{Principal: "user:me", Role: palyra.RoleOwner},
			{Principal: "user:bound", Role: palyra.RoleOwner, Workspaces: []string{"/w"}},
			{Principal: "user:gone", Role: palyra.RoleOwner, RemovedAt: time.Now()},
			{Principal: "user:admin", Role: palyra.RoleAdmin},
		}, nil
	}}}
	owners, err := b.owners(t.Context())
	if err != nil || !slices.Equal(owners, []palyra.Principal{"user:me"}) {
		t.Errorf("%v, %v", owners, err)
	}
}

func TestOpenWantsAllParts(t *testing.T) {
	if _, err := Open(t.Context(), Config{}); err == nil {
		t.Error("nothing is missing")
	}
}
