package audit

import (
	"encoding/json"
	"strings"

	"palyra"
	"palyra/internal/store"
)

// accessRecord is what the journal says of one credential or its holder: a person, a key, a device, an agent
// or a token.
type accessRecord[T any] struct {
	seq  int64
	is   T
	over bool
	by   palyra.Principal // who ended it
	also string           // further content of its line
}

// access is everybody who may come in by the journal, or once might.
type access struct {
	users   map[string]*accessRecord[palyra.User]
	keys    map[string]*accessRecord[palyra.Operator]
	devices map[string]*accessRecord[palyra.Device]
	agents  map[string]*accessRecord[palyra.Agent]
	tokens  map[string]*accessRecord[palyra.Token]
}

func newAccess() access {
	return access{
		map[string]*accessRecord[palyra.User]{},
		map[string]*accessRecord[palyra.Operator]{},
		map[string]*accessRecord[palyra.Device]{},
		map[string]*accessRecord[palyra.Agent]{},
		map[string]*accessRecord[palyra.Token]{},
	}
}

// hear takes in a line about who may come in; it returns false for any other line.
func (a access) hear(seq int64, e palyra.Event) bool {
	switch e := e.(type) {
	case *palyra.UserAdded:
		a.users[str(e.User.Principal)] = &accessRecord[palyra.User]{seq: seq, is: e.User}
	case *palyra.UserChanged:
		if u := a.users[str(e.User.Principal)]; u != nil {
			u.is.Role, u.is.Workspaces = e.User.Role, e.User.Workspaces
		}
	case *palyra.UserRemoved:
		end(a.users, str(e.Principal), e.By)
	case *palyra.OperatorAdded:
		if k := a.keys[e.Operator.KeyID]; k != nil { // a known key is told again when its separation changes
			k.is.Separation = e.Operator.Separation
			break
		}
		a.keys[e.Operator.KeyID] = &accessRecord[palyra.Operator]{seq: seq, is: e.Operator}
	case *palyra.OperatorRemoved:
		end(a.keys, e.KeyID, e.By)
	case *palyra.AgentAdded:
		a.agents[str(e.Agent.Principal)] = &accessRecord[palyra.Agent]{seq: seq, is: e.Agent, also: e.Token}
	case *palyra.AgentRemoved:
		end(a.agents, str(e.Principal), e.By)
	case *palyra.TokenAdded:
		a.tokens[e.Token.ID] = &accessRecord[palyra.Token]{seq: seq, is: e.Token, also: e.Token.ID}
	case *palyra.TokenRevoked:
		end(a.tokens, e.Token, e.By)
	default:
		return a.hearDevice(seq, e)
	}
	return true
}

func (a access) hearDevice(seq int64, e palyra.Event) bool {
	switch e := e.(type) {
	case *palyra.DevicePaired:
		a.devices[e.Device.ID] = &accessRecord[palyra.Device]{seq: seq, is: e.Device}
	case *palyra.DeviceRenewed:
		if d := a.devices[e.Device]; d != nil {
			d.is.Certificate, d.is.Serial, d.is.ExpiresAt = e.Certificate, e.Serial, e.ExpiresAt
		}
	case *palyra.DeviceRevoked:
		end(a.devices, e.Device, e.By)
	default:
		return false
	}
	return true
}

func end[T any](all map[string]*accessRecord[T], id string, by palyra.Principal) {
	if k := all[id]; k != nil {
		k.over, k.by = true, by
	}
}

func (a access) hold(tx *store.Tx) (*palyra.Finding, error) {
	for _, check := range []func(*store.Tx) (*palyra.Finding, error){a.holdUsers, a.holdKeys, a.holdDevices, a.holdAgents, a.holdTokens} {
		if f, err := check(tx); f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

// rows are the rows that a table must have, by id.
func rows[T any](all map[string]*accessRecord[T], values func(*accessRecord[T]) []any) map[string]row {
	want := map[string]row{}
	for id, k := range all {
		want["text:"+id] = row{seq: k.seq, values: values(k)}
	}
	return want
}

func (a access) holdUsers(tx *store.Tx) (*palyra.Finding, error) {
	return table{"access_users", "principal", []string{"role", "workspaces", "added_at", "added_by", "removed_at<>0"}}.hold(tx,
		rows(a.users, func(k *accessRecord[palyra.User]) []any {
			return []any{str(k.is.Role), texts(k.is.Workspaces), k.is.AddedAt.UnixNano(), str(k.is.AddedBy), k.over}
		}))
}

func (a access) holdKeys(tx *store.Tx) (*palyra.Finding, error) {
	return table{"access_operators", "key_id", []string{"principal", "role", "public_key", "separation", "added_at", "removed_at<>0"}}.hold(tx,
		rows(a.keys, func(k *accessRecord[palyra.Operator]) []any {
			return []any{str(k.is.Principal), str(k.is.Role), k.is.PublicKey, str(k.is.Separation), k.is.AddedAt.UnixNano(), k.over}
		}))
}

func (a access) holdDevices(tx *store.Tx) (*palyra.Finding, error) {
	return table{"access_devices", "id", []string{
		"name", "principal", "role", "key_id", "public_key", "certificate", "serial", "expires_at", "paired_at", "paired_by", "call_id",
		"address", "revoked_at<>0", "revoked_by", "passkey",
	}}.hold(tx, rows(a.devices, func(k *accessRecord[palyra.Device]) []any {
		d := k.is
		return []any{
			d.Name, str(d.Principal), str(d.Role), d.KeyID, d.PublicKey, str(d.Certificate), d.Serial, d.ExpiresAt.UnixNano(), d.PairedAt.UnixNano(),
			str(d.PairedBy), str(d.Call), d.Address, k.over, str(k.by), passkeyOf(d),
		}
	}))
}

// passkeyOf is a device's passkey as its row has it.
func passkeyOf(d palyra.Device) string {
	if d.Passkey == nil {
		return ""
	}
	b, _ := json.Marshal(d.Passkey) // texts and a truth value: it cannot fail
	return string(b)
}

func (a access) holdAgents(tx *store.Tx) (*palyra.Finding, error) {
	f, err := table{"access_agents", "principal", []string{"owner", "added_at", "removed_at<>0"}}.hold(tx,
		rows(a.agents, func(k *accessRecord[palyra.Agent]) []any {
			return []any{str(k.is.Owner), k.is.AddedAt.UnixNano(), k.over}
		}))
	if f != nil || err != nil {
		return f, err
	}
	return holdSecrets(tx, `SELECT principal, token_sha256 FROM access_agents`, a.agents)
}

func (a access) holdTokens(tx *store.Tx) (*palyra.Finding, error) {
	f, err := table{"access_tokens", "id", []string{
		"name", "principal", "scopes", "workspaces", "added_at", "added_by", "expires_at",
		"revoked_at<>0", "revoked_by",
	}}.hold(tx,
		rows(a.tokens, func(k *accessRecord[palyra.Token]) []any {
			t := k.is
			return []any{
				t.Name, str(t.Principal), texts(t.Scopes), texts(t.Workspaces), t.AddedAt.UnixNano(), str(t.AddedBy), t.ExpiresAt.UnixNano(), k.over,
				str(k.by),
			}
		}))
	if f != nil || err != nil {
		return f, err
	}
	return holdSecrets(tx, `SELECT id, token_sha256 FROM access_tokens`, a.tokens)
}

// holdSecrets checks the digest of a credential against the id in its line. Lines of agents have no such id
// in earlier versions.
func holdSecrets[T any](tx *store.Tx, query string, all map[string]*accessRecord[T]) (f *palyra.Finding, err error) {
	err = tx.Each(query, nil, func(scan func(...any) error) error {
		var id, digest string
		if err := scan(&id, &digest); err != nil {
			return err
		}
		if k := all[id]; k.also != "" && k.also != tokenID(digest) {
			f = finding(k.seq, "the credential of %.80q is not the one that was given", id)
			return errFound
		}
		return nil
	})
	return f, scanError(f, err)
}

// tokenID is the public name of a token, made of its digest.
func tokenID(digest string) string {
	return "tok-" + strings.TrimPrefix(str(palyra.SumBytes([]byte("palyra/token-id/v1\x00"+digest))), "sha256:")[:32]
}

// texts is a list in a column.
func texts[T ~string](l []T) string {
	if len(l) == 0 {
		return "[]"
	}
	raw, _ := json.Marshal(l) // strings: it cannot fail
	return string(raw)
}
