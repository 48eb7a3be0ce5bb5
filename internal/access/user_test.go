package access

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/store"
)

// ends collects what OnEnd tells.
func (b *bench) ends() *[]string {
	var got []string
	b.OnEnd(func(id string) { got = append(got, id) })
	return &got
}

func (b *bench) addUser(by person, name string, role palyra.Role, workspaces ...string) (palyra.User, error) {
	b.t.Helper()
	return b.AddUser(b.t.Context(), palyra.User{Principal: palyra.Principal("user:" + name), Role: role, Workspaces: workspaces},
		b.sign(by, nil))
}

func (b *bench) changeUser(by person, name string, role palyra.Role, workspaces ...string) error {
	b.t.Helper()
	_, err := b.ChangeUser(b.t.Context(), palyra.User{Principal: palyra.Principal("user:" + name), Role: role, Workspaces: workspaces},
		b.sign(by, nil))
	return err
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestUserLife(t *testing.T) {
	b := newBench(t)
	u, err := b.addUser(b.owner, "bob", palyra.RoleViewer, "/b", "/a", "/b")
	b.must(err)
	want := palyra.User{
		Principal: "user:bob", Role: palyra.RoleViewer, Workspaces: []string{"/a", "/b"}, AddedAt: b.now,
		AddedBy: "user:alice",
	}
	if d := cmp.Diff(want, u); d != "" {
		t.Error(d)
	}
	b.open() // after a restart too
	if got, err := b.User(t.Context(), "user:bob"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	_, err = b.addUser(b.owner, "bob", palyra.RoleViewer)
	b.wants(err, palyra.ReasonExists)
	b.must(b.changeUser(b.owner, "bob", palyra.RoleApprover))
	role, within, err := b.Cap(t.Context(), "user:bob")
	if err != nil || role != palyra.RoleApprover || within != nil {
		t.Errorf("%s %v %v", role, within, err)
	}
	b.must(b.RemoveUser(t.Context(), "user:bob", b.sign(b.owner, nil)))
	_, _, err = b.Cap(t.Context(), "user:bob")
	b.wants(err, palyra.ReasonNoCredential)
	_, err = b.addUser(b.owner, "bob", palyra.RoleViewer)
	b.wants(err, palyra.ReasonExists) // a name is never given twice
	_, err = b.AddOperator(t.Context(), newPerson("bob", palyra.RoleViewer).Operator, b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonNotFound) // nor through a key
	b.wants(b.changeUser(b.owner, "bob", palyra.RoleViewer), palyra.ReasonNotFound)
	b.wants(b.RemoveUser(t.Context(), "user:bob", b.sign(b.owner, nil)), palyra.ReasonNotFound)
	_, err = b.User(t.Context(), "user:nobody")
	b.wants(err, palyra.ReasonNotFound)
	if all, err := b.Users(t.Context()); err != nil || len(all) != 2 || all[1].RemovedAt.IsZero() {
		t.Errorf("%+v %v", all, err)
	}
	if got := b.journal.kinds(); !slices.Equal(got, []string{"user.added", "operator.added", "user.added", "user.changed", "user.removed"}) {
		t.Errorf("journal: %v", got)
	}
}

func TestBadUsersAreRefused(t *testing.T) {
	b := newBench(t)
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf("/w%d", i)
	}
	for name, u := range map[string]palyra.User{
		"agent":      {Principal: "agent:x", Role: palyra.RoleViewer},
		"no name":    {Principal: "user:", Role: palyra.RoleViewer},
		"look-alike": {Principal: "user:аlice", Role: palyra.RoleViewer},
		"role agent": {Principal: "user:x", Role: palyra.RoleAgent},
		"role node":  {Principal: "user:x", Role: palyra.RoleNode},
		"no role":    {Principal: "user:x"},
		"relative":   {Principal: "user:x", Role: palyra.RoleViewer, Workspaces: []string{"w"}},
		"unclean":    {Principal: "user:x", Role: palyra.RoleViewer, Workspaces: []string{"/w/../etc"}},
		"control":    {Principal: "user:x", Role: palyra.RoleViewer, Workspaces: []string{"/w\x00"}},
		"empty path": {Principal: "user:x", Role: palyra.RoleViewer, Workspaces: []string{""}},
		"too many":   {Principal: "user:x", Role: palyra.RoleViewer, Workspaces: many},
	} {
		if _, err := b.AddUser(t.Context(), u, b.sign(b.owner, nil)); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.ChangeUser(t.Context(), u, b.sign(b.owner, nil)); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("change to %s: %v", name, err)
		}
	}
}

func TestNobodyGivesMoreThanTheyHave(t *testing.T) {
	b := newBench(t)
	admin, operator := b.add("bob", palyra.RoleAdmin), b.add("olga", palyra.RoleOperator)
	_, err := b.addUser(admin, "x", palyra.RoleOwner)
	b.wants(err, palyra.ReasonPermission)
	_, err = b.addUser(operator, "x", palyra.RoleViewer) // holds no access.manage
	b.wants(err, palyra.ReasonPermission)
	_, err = b.addUser(newPerson("mallory", palyra.RoleOwner), "x", palyra.RoleViewer)
	b.wants(err, palyra.ReasonUnknownKey)
	_, err = b.addUser(admin, "carl", palyra.RoleAdmin)
	b.must(err)
	b.wants(b.changeUser(admin, "carl", palyra.RoleOwner), palyra.ReasonPermission)
	b.wants(b.changeUser(admin, "bob", palyra.RoleOwner), palyra.ReasonPermission) // nor themselves
	b.wants(b.changeUser(admin, "alice", palyra.RoleViewer), palyra.ReasonPermission)
	b.wants(b.RemoveUser(t.Context(), "user:alice", b.sign(admin, nil)), palyra.ReasonPermission)

	// Bound to a workspace, an admin gives that and nothing else.
	b.must(b.changeUser(b.owner, "bob", palyra.RoleAdmin, "/w"))
	for _, w := range [][]string{nil, {"/x"}, {"/w", "/x"}} {
		_, err = b.addUser(admin, "dora", palyra.RoleViewer, w...)
		b.wants(err, palyra.ReasonPermission)
	}
	b.wants(b.changeUser(admin, "bob", palyra.RoleAdmin), palyra.ReasonPermission)
	b.wants(b.changeUser(admin, "carl", palyra.RoleAdmin, "/w"), palyra.ReasonPermission) // who reaches more than bob
	_, err = b.addUser(admin, "dora", palyra.RoleViewer, "/w")
	b.must(err)

	// Made less, a person's keys are less with them.
	b.must(b.changeUser(b.owner, "bob", palyra.RoleViewer))
	_, err = b.addUser(admin, "erik", palyra.RoleViewer)
	b.wants(err, palyra.ReasonPermission)
	stronger := newPerson("bob", palyra.RoleAdmin)
	_, err = b.AddOperator(t.Context(), stronger.Operator, b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonPermission) // a key is no more than its person
}

// An owner's key of somebody who is no owner any more is no owner's.
func TestOwnersKeyAloneIsNoOwner(t *testing.T) {
	b := newBench(t)
	eve, admin := b.add("eve", palyra.RoleOwner), b.add("bob", palyra.RoleAdmin)
	b.must(b.changeUser(b.owner, "eve", palyra.RoleAdmin))
	for _, by := range []person{eve, admin} {
		_, err := b.AddOperator(t.Context(), newPerson("carl", palyra.RoleViewer).Operator, b.sign(by, nil))
		b.wants(err, palyra.ReasonPermission) // another's key
		_, err = b.AddOperator(t.Context(), newPerson(by.Principal.Name(), palyra.RoleOwner).Operator, b.sign(by, nil))
		b.wants(err, palyra.ReasonPermission)
		_, _, err = b.AddAgent(t.Context(), "x", "user:alice", b.sign(by, nil))
		b.wants(err, palyra.ReasonPermission)
		_, _, err = b.token(by, "user:alice", []palyra.Permission{"status.view"}, nil)
		b.wants(err, palyra.ReasonPermission)
		b.wants(b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(by, nil)), palyra.ReasonPermission)
	}
}

func TestAgentEndsWithItsOwnerEvenIfItsRowDoesNot(t *testing.T) {
	b := newBench(t)
	b.add("bob", palyra.RoleViewer)
	_, token, err := b.AddAgent(t.Context(), "ci", "user:bob", b.sign(b.owner, nil))
	b.must(err)
	b.exec(`UPDATE access_users SET removed_at = 1 WHERE principal = 'user:bob'`)
	_, err = b.Bearer(t.Context(), token)
	b.wants(err, palyra.ReasonBadCredential)
}

func TestTheLastOwnerStays(t *testing.T) {
	b := newBench(t)
	eve := b.add("eve", palyra.RoleOwner)
	b.must(b.changeUser(b.owner, "eve", palyra.RoleAdmin))
	b.wants(b.changeUser(b.owner, "alice", palyra.RoleAdmin), palyra.ReasonLastOwner) // eve's key is an owner's, eve is not
	remedy := func() string {
		return palyra.AsError(b.RemoveUser(t.Context(), "user:alice", b.sign(b.owner, nil))).Remedy
	}
	if got := remedy(); !strings.HasPrefix(got, "add another owner with a key") {
		t.Error(got)
	}
	_, err := b.addUser(b.owner, "bob", palyra.RoleOwner) // an owner, who could not sign anything
	b.must(err)
	if got := remedy(); !strings.Contains(got, "user:bob is an owner without an owner's key") ||
		!strings.Contains(got, "palyra operator add user:bob --role owner --public-key") {
		t.Error(got)
	}
	b.wants(b.RemoveUser(t.Context(), "user:alice", b.sign(b.owner, nil)), palyra.ReasonLastOwner)
	b.wants(b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(b.owner, nil)), palyra.ReasonLastOwner)
	if a, err := b.LocalAgent(t.Context()); err != nil || a.Owner != "user:alice" {
		t.Errorf("%+v %v", a, err)
	}
	b.must(b.changeUser(b.owner, "eve", palyra.RoleOwner))
	b.must(b.RemoveUser(t.Context(), "user:alice", b.sign(eve, nil)))
	if a, err := b.LocalAgent(t.Context()); err != nil || a.Owner != "user:eve" {
		t.Errorf("%+v %v", a, err)
	}
	_, err = b.Person(t.Context(), 1000)
	b.wants(err, palyra.ReasonNoCredential) // the daemon's user was alice
}

func TestRemovalEndsAllThatIsTheirs(t *testing.T) {
	b := newBench(t)
	bob := b.add("bob", palyra.RoleAdmin)
	d, phone := b.pair("phone", "bob", palyra.RoleApprover)
	own, secret, err := b.AddToken(t.Context(), palyra.Token{Name: "t", Scopes: []palyra.Permission{"status.view"}}, time.Hour,
		b.sign(bob, nil))
	b.must(err)
	_, agent, err := b.AddAgent(t.Context(), "ci", "", b.sign(bob, nil))
	b.must(err)
	scoped, agents, err := b.AddToken(t.Context(), palyra.Token{Name: "t", Principal: "agent:ci", Scopes: []palyra.Permission{"tools.list"}},
		time.Hour, b.sign(bob, nil))
	b.must(err)
	got, before := b.ends(), len(b.journal.kinds())
	b.must(b.RemoveUser(t.Context(), "user:bob", b.sign(b.owner, nil)))

	want := []string{"user:bob", "agent:user.bob", "key:" + bob.KeyID, "device:" + d.ID, "token:" + own.ID, "agent:ci", "token:" + scoped.ID}
	if d := cmp.Diff(want, *got); d != "" {
		t.Error(d)
	}
	lines := []string{"operator.removed", "device.revoked", "token.revoked", "token.revoked", "agent.removed", "user.removed"}
	if d := cmp.Diff(lines, b.journal.kinds()[before:]); d != "" {
		t.Error(d)
	}
	b.wants(b.check(b.sign(bob, nil)), palyra.ReasonUnknownKey)
	b.wants(b.check(b.sign(phone, nil)), palyra.ReasonDeviceRevoked)
	for _, s := range []palyra.Secret{secret, agent, agents} {
		_, err := b.Bearer(t.Context(), s)
		b.wants(err, palyra.ReasonBadCredential)
	}
	for _, p := range []palyra.Principal{"user:bob", "agent:ci", "agent:device.phone"} {
		_, _, err := b.Cap(t.Context(), p)
		b.wants(err, palyra.ReasonNoCredential)
	}
}

func TestChangeEndsWhatWasOpenedBefore(t *testing.T) {
	b := newBench(t)
	bob, second := b.add("bob", palyra.RoleAdmin), newPerson("bob", palyra.RoleAdmin)
	_, err := b.AddOperator(t.Context(), second.Operator, b.sign(bob, nil))
	b.must(err)
	got := b.ends()
	b.must(b.changeUser(bob, "bob", palyra.RoleAdmin, "/w"))
	if want := []string{"user:bob", "agent:user.bob", "key:" + second.KeyID}; !slices.Equal(*got, want) { // not the request that says so
		t.Errorf("%v, want %v", *got, want)
	}
	b.wants(b.RemoveOperator(t.Context(), "op-none", b.sign(b.owner, nil)), palyra.ReasonNotFound)
	if len(*got) != 3 {
		t.Error("a refused change ended something")
	}
	_, _, err = b.AddAgent(t.Context(), "ci", "user:bob", b.sign(b.owner, nil))
	b.must(err)
	for _, c := range []struct {
		role  palyra.Role
		place []string
		want  []string
	}{
		{palyra.RoleOwner, []string{"/v", "/w"}, nil}, // more ends nothing
		{palyra.RoleViewer, []string{"/v", "/w"}, []string{"user:bob", "agent:user.bob", "key:" + bob.KeyID, "key:" + second.KeyID}},
		{palyra.RoleViewer, []string{"/v"}, []string{"user:bob", "agent:user.bob", "key:" + bob.KeyID, "key:" + second.KeyID, "agent:ci"}},
		{palyra.RoleViewer, nil, nil},
		{palyra.RoleAuditor, nil, nil},
		{palyra.RoleApprover, nil, []string{"user:bob", "agent:user.bob", "key:" + bob.KeyID, "key:" + second.KeyID}},
		// another, and so less in part
	} {
		*got = nil
		b.must(b.changeUser(b.owner, "bob", c.role, c.place...))
		if !slices.Equal(*got, c.want) {
			t.Errorf("to %s in %v: %v, want %v", c.role, c.place, *got, c.want)
		}
	}
}

func TestCapOfAgents(t *testing.T) {
	b := newBench(t)
	b.must(b.changeUser(b.owner, "alice", palyra.RoleOwner, "/w"))
	_, _, err := b.AddAgent(t.Context(), "ci", "", b.sign(b.owner, nil))
	b.must(err)
	b.pair("phone", "alice", palyra.RoleViewer)
	for _, p := range []palyra.Principal{"agent:local", "agent:ci", "agent:device.phone"} {
		role, within, err := b.Cap(t.Context(), p)
		if err != nil || role != palyra.RoleAgent || !slices.Equal(within, []string{"/w"}) {
			t.Errorf("%s: %s %v %v", p, role, within, err)
		}
	}
	for _, p := range []palyra.Principal{"", "agent:", "agent:none", "agent:device.none", "device:x", "system:daemon", "user:none"} {
		_, _, err := b.Cap(t.Context(), p)
		b.wants(err, palyra.ReasonNoCredential)
	}
	_, _, err = b.AddAgent(t.Context(), "device.phone", "", b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonMalformedInput) // else it would be the device's
}

// A state from before people were kept.
func TestAdopt(t *testing.T) {
	b := newBench(t)
	b.add("bob", palyra.RoleAuditor)
	second := newPerson("bob", palyra.RoleAuditor)
	_, err := b.AddOperator(t.Context(), second.Operator, b.sign(b.owner, nil))
	b.must(err)
	_, _, err = b.AddAgent(t.Context(), "ci", "user:bob", b.sign(b.owner, nil))
	b.must(err)
	b.exec(`UPDATE access_operators SET role = 'operator' WHERE key_id = '` + second.KeyID + `'`)
	b.exec(`DELETE FROM access_users`)
	b.wants(b.check(b.sign(b.owner, nil)), palyra.ReasonUnknownKey) // nobody, until adopted
	before := len(b.journal.kinds())
	b.must(b.Adopt(t.Context()))
	b.must(b.Adopt(t.Context()))
	for p, want := range map[palyra.Principal]palyra.Role{"user:alice": palyra.RoleOwner, "user:bob": palyra.RoleAdmin} {
		if u, err := b.User(t.Context(), p); err != nil || u.Role != want || u.AddedBy != "system:daemon" {
			t.Errorf("%+v %v", u, err)
		}
	}
	if got := b.journal.kinds()[before:]; !slices.Equal(got, []string{"user.added", "user.added"}) {
		t.Errorf("journal: %v", got)
	}
	b.must(b.check(b.sign(b.owner, nil)))
}

// exec changes the state past the registry.
func (b *bench) exec(statement string) {
	b.t.Helper()
	b.must(b.DB.Write(b.t.Context(), "past", func(tx *store.Tx) error {
		_, err := tx.Exec(statement)
		return err
	}))
}
