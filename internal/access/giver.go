package access

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/store"
)

// giver is who signed a change: the key with its role and the person with theirs. It gives at most what both hold.
type giver struct {
	palyra.Operator
	user palyra.User
}

// signer returns who is behind a signature, as of tx. The key may be an
// operator's or a device's; both end with their person.
func signer(tx *store.Tx, sig palyra.Signature) (giver, error) {
	op, err := operator(tx, sig.Intent.KeyID)
	if palyra.CodeOf(err) == palyra.Denied {
		op, err = deviceOperator(tx, sig.Intent.KeyID)
	}
	if err != nil {
		return giver{}, err
	}
	if !op.RemovedAt.IsZero() {
		return giver{}, unknownKey()
	}
	u, err := liveUser(tx, op.Principal)
	if palyra.CodeOf(err) == palyra.Denied {
		return giver{}, unknownKey()
	}
	return giver{op, u}, err
}

// allowed returns the signer, who must hold a permission. The door has checked
// that before; between the two, things may have changed.
func allowed(tx *store.Tx, sig palyra.Signature, permission palyra.Permission) (giver, error) {
	g, err := signer(tx, sig)
	if err == nil && !g.holds(permission) {
		err = tooMuch("the signer lacks the permission " + string(permission))
	}
	return g, err
}

// credential is the id of what g signed with.
func (g giver) credential() string {
	if g.Device != "" {
		return "device:" + g.Device
	}
	return "key:" + g.KeyID
}

func (g giver) holds(permission palyra.Permission) bool {
	return slices.Contains(roles[g.Role], permission) && slices.Contains(roles[g.user.Role], permission)
}

// owner reports whether both the key and the person are an owner's.
func (g giver) owner() bool { return g.Role == palyra.RoleOwner && g.user.Role == palyra.RoleOwner }

// covers reports whether g has everything that a role has.
func (g giver) covers(role palyra.Role) bool {
	return (role != palyra.RoleOwner || g.owner()) && !slices.ContainsFunc(roles[role], func(p palyra.Permission) bool { return !g.holds(p) })
}

// mayGive checks that g can give a role in some workspaces, or take it away.
func (g giver) mayGive(role palyra.Role, workspaces []string) error {
	switch {
	case role == palyra.RoleOwner && !g.owner():
		return onlyOwner()
	case !g.covers(role):
		return tooMuch("the role " + string(role) + " holds more than the signer does")
	case !containsReach(workspaces, g.user.Workspaces):
		return tooMuch("it reaches workspaces that the signer does not")
	}
	return nil
}

// mayEndFor checks that g may end what is p's: their own always, another's when g has all that p has.
func (g giver) mayEndFor(tx *store.Tx, p palyra.Principal) error {
	if p == g.Principal {
		return nil
	}
	u, err := user(tx, p)
	if errors.Is(err, store.ErrNoRows) {
		return nil // nobody's any more
	}
	if err != nil {
		return err
	}
	return g.mayGive(u.Role, u.Workspaces)
}

// containsReach reports whether one reach lies in another; an empty list is everything.
func containsReach(part, whole []string) bool {
	if len(whole) == 0 {
		return true
	}
	return len(part) > 0 && !slices.ContainsFunc(part, func(w string) bool { return !slices.Contains(whole, w) })
}

// intersectReach returns what lies in two reaches. It reports false when that is nothing,
// which an empty list could not say.
func intersectReach(a, b []string) ([]string, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	out := slices.DeleteFunc(slices.Clone(a), func(w string) bool { return !slices.Contains(b, w) })
	return out, len(out) > 0
}

// personRole accepts the roles that a person may have.
func personRole(r palyra.Role) error {
	if slices.Contains(ladder, r) {
		return nil
	}
	return invalid("the role must be owner, admin, operator, approver, auditor or viewer")
}

// goodPaths checks a list of workspaces and returns it sorted.
func goodPaths(paths []string) ([]string, error) {
	const most, longest = 64, 4096
	if len(paths) > most {
		return nil, invalid("at most 64 workspaces can be named")
	}
	for _, p := range paths {
		if len(p) > longest || !filepath.IsAbs(p) || filepath.Clean(p) != p ||
			strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) {
			return nil, invalid("a workspace is the absolute path of a registered one")
		}
	}
	return sorted(paths), nil
}

// sorted returns a list without repetition, nil when it is empty.
func sorted[T ~string](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func onlyOwner() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "only an owner may do this").WithRemedy("ask an owner")
}

func tooMuch(why string) error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "nobody gives or takes more than they have: %s", why).
		WithRemedy("ask an owner")
}
