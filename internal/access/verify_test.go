package access

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"palyra"
)

// each walks the bench's journal as the daemon walks the real one.
func (b *bench) each(kind string, f func(raw []byte) error) error {
	for _, e := range b.journal.events {
		if e.Kind() != kind {
			continue
		}
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if err := f(raw); err != nil {
			return err
		}
	}
	return nil
}

// lived is a bench where everything happened once.
func lived(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	ctx := t.Context()
	for _, name := range []string{"bob", "carl"} {
		p := b.add(name, palyra.RoleAdmin)
		_, _, err := b.AddAgent(ctx, name+"s", "", b.sign(p, nil))
		b.must(err)
		_, s, err := b.token(p, "", []palyra.Permission{"status.view"}, []string{"/w"})
		b.must(err)
		_, err = b.Bearer(ctx, s)
		b.must(err)
		d, _ := b.pair(name+"-phone", name, palyra.RoleViewer)
		b.Seen(d.ID)
		_, err = b.RenewDevice(ctx, d.ID, palyra.SumBytes([]byte("2")), "02", b.now.Add(time.Hour))
		b.must(err)
		b.must(b.changeUser(b.owner, name, palyra.RoleAdmin, "/w", "/v"))
	}
	b.must(b.flush(ctx))
	b.must(b.RemoveUser(ctx, "user:carl", b.sign(b.owner, nil)))
	return b
}

func TestVerifyHoldsWhatHappened(t *testing.T) {
	b := lived(t)
	b.must(b.Verify(t.Context(), b.each))
	b.must(newBench(t).Verify(t.Context(), newBench(t).each)) // a state with one owner, made at the same time
	broken := errors.New("broken")
	if err := b.Verify(t.Context(), func(string, func([]byte) error) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := b.Verify(t.Context(), func(_ string, f func([]byte) error) error { return f([]byte("{")) }); err == nil {
		t.Error("a journal that cannot be read counts")
	}
}

// A row that somebody wrote past the daemon is found, whatever it is about.
func TestVerifyFindsEveryChange(t *testing.T) {
	stolen := string(palyra.SumBytes([]byte("a token that mallory knows")))
	for name, statement := range map[string]string{
		"person added":        `INSERT INTO access_users VALUES ('user:mallory', 'owner', '[]', 1, 'user:alice', 0)`,
		"person raised":       `UPDATE access_users SET role = 'owner' WHERE principal = 'user:bob'`,
		"reach widened":       `UPDATE access_users SET workspaces = '[]' WHERE principal = 'user:bob'`,
		"person revived":      `UPDATE access_users SET removed_at = 0 WHERE principal = 'user:carl'`,
		"person ended":        `UPDATE access_users SET removed_at = 1 WHERE principal = 'user:bob'`,
		"person gone":         `DELETE FROM access_users WHERE principal = 'user:carl'`,
		"person renamed":      `UPDATE access_users SET principal = 'user:mallory' WHERE principal = 'user:bob'`,
		"token added":         `INSERT INTO access_tokens SELECT 'tok-x', name, principal, scopes, workspaces, 'sha256:x', added_at, added_by, expires_at, 0, 0, '' FROM access_tokens LIMIT 1`,
		"token replaced":      `UPDATE access_tokens SET token_sha256 = '` + stolen + `' WHERE principal = 'user:bob'`,
		"token prolonged":     `UPDATE access_tokens SET expires_at = expires_at + 1`,
		"token widened":       `UPDATE access_tokens SET scopes = '["journal.read","status.view"]'`,
		"token everywhere":    `UPDATE access_tokens SET workspaces = '[]'`,
		"token of another":    `UPDATE access_tokens SET principal = 'user:alice'`,
		"token revived":       `UPDATE access_tokens SET revoked_at = 0, revoked_by = ''`,
		"token gone":          `DELETE FROM access_tokens`,
		"device raised":       `UPDATE access_devices SET role = 'owner'`,
		"device of another":   `UPDATE access_devices SET principal = 'user:alice'`,
		"device key":          `UPDATE access_devices SET public_key = 'AAAA' WHERE principal = 'user:bob'`,
		"device key id":       `UPDATE access_devices SET key_id = 'op-x' WHERE principal = 'user:bob'`,
		"device certificate":  `UPDATE access_devices SET serial = '03'`,
		"device revived":      `UPDATE access_devices SET revoked_at = 0, revoked_by = ''`,
		"device gone":         `DELETE FROM access_devices`,
		"agent added":         `INSERT INTO access_agents VALUES ('agent:x', 'user:bob', 'sha256:x', 1, 0)`,
		"agent of another":    `UPDATE access_agents SET owner = 'user:alice'`,
		"agent revived":       `UPDATE access_agents SET removed_at = 0`,
		"agent credential":    `UPDATE access_agents SET token_sha256 = '` + stolen + `' WHERE principal = 'agent:bobs'`,
		"scopes cannot parse": `UPDATE access_tokens SET scopes = 'x'`,
	} {
		t.Run(name, func(t *testing.T) {
			b := lived(t)
			b.exec(statement)
			err := b.Verify(t.Context(), b.each)
			if name == "scopes cannot parse" {
				if err == nil {
					t.Error("not found")
				}
				return
			}
			b.wants(err, palyra.ReasonVerifyFailed)
		})
	}
}

// A stolen digest in a row does not even work before it is found.
func TestReplacedDigestOpensNothing(t *testing.T) {
	b := newBench(t)
	_, _, err := b.token(b.owner, "", []palyra.Permission{"status.view"}, nil)
	b.must(err)
	mine, digest := newToken()
	b.exec(`UPDATE access_tokens SET token_sha256 = '` + string(digest) + `'`)
	_, err = b.Bearer(t.Context(), mine)
	b.wants(err, palyra.ReasonBadCredential)
}

func TestRunWritesUsesDown(t *testing.T) {
	b := newBench(t)
	_, secret, err := b.token(b.owner, "", []palyra.Permission{"status.view"}, nil)
	b.must(err)
	before := b.used
	_, err = b.Bearer(t.Context(), secret)
	b.must(err)
	if len(before) != 1 {
		t.Fatal("not noted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.must(b.Run(ctx)) // once more at the end
	b.open()
	if all, err := b.Tokens(t.Context()); err != nil || !all[0].UsedAt.Equal(b.now.Truncate(time.Minute)) {
		t.Errorf("%+v %v", all, err)
	}
	b.must(b.DB.Close())
	b.Seen("dev-x")
	if err := b.flush(t.Context()); err == nil || len(b.seen) != 1 {
		t.Errorf("lost what could not be written: %v", err)
	}
}

func TestRoles(t *testing.T) {
	var r *Registry
	if got := r.Roles(); len(got) != len(everyRole) || got[0] != palyra.RoleOwner {
		t.Errorf("%v", got)
	}
	for _, role := range r.Roles() {
		held := r.Holds(role)
		for _, p := range everyPermission() {
			if want := slices.Contains(held, p); r.Permits(role, p, true) != want {
				t.Errorf("%s %s: held %v", role, p, want)
			}
		}
		if clear(held); len(held) > 0 && r.Holds(role)[0] == "" {
			t.Error("the table can be written to")
		}
	}
	for i, low := range ladder {
		for _, high := range ladder[i:] {
			if low == palyra.RoleAuditor && (high == palyra.RoleApprover || high == palyra.RoleOperator) {
				continue // the one pair of which neither covers the other
			}
			if join(low, high) != high || join(high, low) != high {
				t.Errorf("%s and %s give %s", low, high, join(low, high))
			}
		}
	}
}
