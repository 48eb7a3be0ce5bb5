package bundle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/policy"
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

// The setting takes the presets that there are, names each of them, and takes no other.
func TestTheSettingTakesEveryPreset(t *testing.T) {
	load := func(name string) error {
		_, err := config.Load(config.Options{Home: t.TempDir(), Env: []string{"PALYRA_POLICY_PRESET=" + name}})
		return err
	}
	for _, name := range policy.Presets() {
		if err := load(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := load("none-of-them")
	if err == nil {
		t.Fatal("a preset that there is not is taken")
	}
	if want := "is not one of " + strings.Join(policy.Presets(), ", "); !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
