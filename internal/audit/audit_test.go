package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/attest"
	"palyra/internal/canon"
	"palyra/internal/journal"
	"palyra/internal/keyring"
	"palyra/internal/mcp/upstream"
	"palyra/internal/policy/inforce"
	"palyra/internal/posture"
	"palyra/internal/skill/registry"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/workspace"

	accesses "palyra/internal/access"
	runs "palyra/internal/run"
)

const origin = "palyra.test/journal"

var began = time.Date(2026, 11, 15, 10, 0, 0, 5, time.UTC)

// testKey signs as the keyring's does.
type testKey struct{ ed25519.PrivateKey }

func (k testKey) Name() string { return origin }
func (k testKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}

func (k testKey) Verifier() string {
	line, err := note.NewEd25519VerifierKey(origin, k.Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	return line
}

// bench is a state that is written by hand: lines, and the rows that follow.
type bench struct {
	*testing.T
	path    string
	key     testKey
	clock   time.Time
	db      *store.DB
	journal *journal.Journal
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, path: filepath.Join(t.TempDir(), "state.db"), key: testKey{ed25519.NewKeyFromSeed(make([]byte, 32))}, clock: began}
	engine, err := sqlite.Open(b.path)
	b.must(err)
	b.db, err = store.Open(t.Context(), engine, journal.Schema(), accesses.Schema(), approval.Schema(), attest.Schema(), keyring.Schema(),
		registry.Schema(), upstream.Schema(), inforce.Schema(), posture.Schema(), runs.Schema(), workspace.Schema())
	b.must(err)
	t.Cleanup(func() { _ = b.db.Close() })
	b.journal, err = journal.New(t.Context(), journal.Config{DB: b.db, Signer: b.key, Now: func() time.Time { return b.clock }})
	b.must(err)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) say(events ...palyra.Event) {
	b.Helper()
	_, err := b.journal.Record(b.Context(), events...)
	b.must(err)
}

func (b *bench) exec(query string, args ...any) (n int64) {
	b.Helper()
	b.must(b.db.Write(b.Context(), "test", func(tx *store.Tx) (err error) {
		n, err = tx.Exec(query, args...)
		return err
	}))
	return n
}

// insert adds a row: columns and values in turn.
func (b *bench) insert(table string, pairs ...any) {
	b.Helper()
	var columns []string
	var values []any
	for i := 0; i < len(pairs); i += 2 {
		columns, values = append(columns, pairs[i].(string)), append(values, pairs[i+1])
	}
	b.exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(columns, ", "),
		strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ")), values...)
}

// found is what verifying a copy finds: with the time at which its head was signed.
func (b *bench) found() string {
	b.Helper()
	r, err := journal.VerifyFile(b.Context(), b.path, []string{b.key.Verifier()}, nil, func(now time.Time) journal.Auditor { return New(now) })
	if r.Problem == nil {
		b.must(err)
		return ""
	}
	return r.Problem.Why
}

// noticed makes a change that must be found, and undoes it.
func (b *bench) noticed(table, what, change string) {
	b.Helper()
	var columns []string
	b.must(b.db.Read(b.Context(), func(tx *store.Tx) error {
		return tx.Each("SELECT name FROM pragma_table_info(?)", []any{table}, func(scan func(...any) error) error {
			var c string
			err := scan(&c)
			columns = append(columns, c)
			return err
		})
	}))
	list := strings.Join(columns, ", ")
	b.exec("CREATE TABLE saved AS SELECT rowid AS r, * FROM " + table)
	if b.exec(change) == 0 {
		b.Errorf("%s: %s changes nothing", table, what)
	}
	if b.found() == "" {
		b.Errorf("%s: %s goes unnoticed", table, what)
	}
	b.exec("DELETE FROM " + table)
	b.exec("INSERT INTO " + table + " (rowid, " + list + ") SELECT r, " + list + " FROM saved")
	b.exec("DROP TABLE saved")
}

// everyColumn changes each column of a table that is not free, and removes a row.
func (b *bench) everyColumn(table string, columns ...string) {
	b.Helper()
	for _, c := range columns {
		if _, ok := Free[table+"."+c]; ok {
			b.Errorf("%s.%s is free", table, c)
		}
		b.noticed(table, c, fmt.Sprintf(`UPDATE %[1]s SET %[2]s = CASE typeof(%[2]s) WHEN 'integer' THEN %[2]s+1 WHEN 'blob' THEN CAST(%[2]s || ' ' || 'x' AS BLOB) ELSE %[2]s || 'x' END
			WHERE rowid = (SELECT MIN(rowid) FROM %[1]s)`, table, c))
	}
	b.noticed(table, "a row removed", fmt.Sprintf("DELETE FROM %[1]s WHERE rowid = (SELECT MAX(rowid) FROM %[1]s)", table))
}

// Nobody comes in by a row that somebody wrote: people, keys, devices, agents and
// tokens are held by the lines that made and ended them.
func TestAccess(t *testing.T) {
	b := newBench(t)
	at, digest := began.UnixNano(), "sha256:"+strings.Repeat("a", 64)
	token := palyra.Token{
		ID: tokenID(digest), Name: "ci", Principal: "user:alice", Scopes: []palyra.Permission{"status.view"},
		AddedAt: began, AddedBy: "user:alice", ExpiresAt: began,
	}
	device := palyra.Device{
		ID: "dev-1", Name: "phone", Principal: "user:alice", Role: "viewer", KeyID: "op-2", PublicKey: "BBBB", Certificate: "sha256:1",
		Serial: "01", ExpiresAt: began,
		PairedAt: began, PairedBy: "user:alice", Call: "01", Address: "192.0.2.1",
	}
	operator := palyra.Operator{Principal: "user:alice", Role: "owner", KeyID: "op-1", PublicKey: "AAAA", Separation: "none", AddedAt: began}
	again := operator
	again.Separation, again.AddedAt = "passphrase", began.Add(time.Hour)
	b.say(
		palyra.UserAdded{User: palyra.User{Principal: "user:alice", Role: "viewer", AddedAt: began, AddedBy: "system:daemon"}},
		palyra.UserChanged{User: palyra.User{Principal: "user:alice", Role: "owner", Workspaces: []string{"/w"}}, By: "user:alice"},
		palyra.UserAdded{User: palyra.User{Principal: "user:bob", Role: "viewer", AddedAt: began, AddedBy: "user:alice"}},
		palyra.UserRemoved{Principal: "user:bob", By: "user:alice"},
		palyra.OperatorAdded{Operator: operator}, palyra.OperatorAdded{Operator: again}, palyra.OperatorRemoved{KeyID: "op-1", By: "user:alice"},
		palyra.DevicePaired{Device: device}, palyra.DeviceRenewed{
			Device: "dev-1", Certificate: "sha256:2", Serial: "02",
			ExpiresAt: began.Add(1),
		},
		palyra.DeviceRevoked{Device: "dev-1", By: "user:alice"},
		palyra.AgentAdded{Agent: palyra.Agent{Principal: "agent:ci", Owner: "user:alice", AddedAt: began}, Token: tokenID(digest)},
		palyra.AgentAdded{Agent: palyra.Agent{Principal: "agent:old", Owner: "user:alice", AddedAt: began}},
		palyra.AgentRemoved{Principal: "agent:old", By: "user:alice"},
		palyra.TokenAdded{Token: token}, palyra.TokenRevoked{Token: token.ID, By: "user:alice"},
	)
	b.insert("access_users", "principal", "user:alice", "role", "owner", "workspaces", `["/w"]`, "added_at", at, "added_by", "system:daemon",
		"removed_at", 0)
	b.insert("access_users", "principal", "user:bob", "role", "viewer", "workspaces", `[]`, "added_at", at, "added_by", "user:alice",
		"removed_at", 7)
	b.insert("access_operators", "key_id", "op-1", "seq", 1, "principal", "user:alice", "role", "owner", "public_key", "AAAA", "separation",
		"passphrase", "uid", 0, "added_at", at, "removed_at", 9)
	b.insert("access_devices", "id", "dev-1", "name", "phone", "principal", "user:alice", "role", "viewer", "key_id", "op-2", "public_key",
		"BBBB", "certificate", "sha256:2", "serial", "02",
		"expires_at", at+1, "paired_at", at, "paired_by", "user:alice", "call_id", "01", "address", "192.0.2.1", "seen_at", 5, "revoked_at", 6,
		"revoked_by", "user:alice")
	b.insert("access_agents", "principal", "agent:ci", "owner", "user:alice", "token_sha256", digest, "added_at", at, "removed_at", 0)
	b.insert("access_agents", "principal", "agent:old", "owner", "user:alice", "token_sha256", "sha256:b", "added_at", at, "removed_at", 4)
	b.insert("access_tokens", "id", token.ID, "name", "ci", "principal", "user:alice", "scopes", `["status.view"]`, "workspaces", "[]",
		"token_sha256", digest, "added_at", at,
		"added_by", "user:alice", "expires_at", at, "used_at", 3, "revoked_at", 3, "revoked_by", "user:alice")
	if why := b.found(); why != "" {
		t.Fatal(why)
	}
	b.everyColumn("access_users", "principal", "role", "workspaces", "added_at", "added_by")
	b.everyColumn("access_operators", "key_id", "principal", "role", "public_key", "separation", "added_at")
	b.everyColumn("access_devices", "id", "name", "principal", "role", "key_id", "public_key", "certificate", "serial", "expires_at",
		"paired_at", "paired_by", "call_id", "address", "revoked_by")
	b.everyColumn("access_agents", "principal", "owner", "token_sha256", "added_at")
	b.everyColumn("access_tokens", "id", "name", "principal", "scopes", "workspaces", "token_sha256", "added_at", "added_by", "expires_at",
		"revoked_by")
	for table, change := range map[string]string{
		"access_users": "removed_at = 0 WHERE principal = 'user:bob'", "access_operators": "removed_at = 0", "access_devices": "revoked_at = 0",
		"access_agents": "removed_at = 0 WHERE principal = 'agent:old'", "access_tokens": "revoked_at = 0",
	} {
		b.noticed(table, "what was ended lives again", "UPDATE "+table+" SET "+change)
	}
	b.noticed("access_users", "an owner from nowhere", `INSERT INTO access_users VALUES ('user:mallory', 'owner', '[]', 1, 'user:alice', 0)`)
}

// Texts that stand under their digests have them.
func TestPolicyAndPostures(t *testing.T) {
	b := newBench(t)
	sum := func(domain, text string) string {
		raw, err := canon.FromJSON([]byte(text))
		b.must(err)
		return canon.Sum(domain, raw)
	}
	files, body, tried := `{"a.cedar":"permit (principal, action, resource);"}`, `{"tier":"C"}`,
		`{"at":"x","tiers":[{"tier":"C"},{"tier":"B"}]}`
	content := palyra.SumBytes([]byte("permit (principal, action, resource);"))
	bundle, snapshot, held := sum("policy-bundle/v1", `{"a.cedar":"`+string(content)+`"}`), sum("snapshot/v1", body), sum("posture/v1", tried)
	envelope, err := json.Marshal(palyra.Envelope{Payload: base64.StdEncoding.EncodeToString([]byte(`{"predicate":` + tried + `}`))})
	b.must(err)
	b.say(palyra.PolicyActivated{Bundle: palyra.Digest(bundle), Snapshot: palyra.Digest(snapshot), By: "system:daemon"},
		palyra.PostureChecked{Posture: palyra.Digest(held), By: "system:daemon"})
	b.insert("policy_bundle", "digest", bundle, "files", files, "saved_at", 1)
	b.insert("policy_snapshot", "digest", snapshot, "body", body, "saved_at", 1)
	b.insert("policy_activation", "seq", 1, "bundle", bundle, "snapshot", snapshot, "activated_by", "system:daemon", "activated_at", 1)
	b.insert("postures", "digest", held, "at", 1, "envelope", envelope)
	b.noticed("postures", "an envelope", `UPDATE postures SET envelope = CAST('{"payload":"e30="}' AS BLOB)`)
	b.insert("posture_tiers", "tier", "C", "digest", held)
	b.insert("posture_tiers", "tier", "B", "digest", held)
	if why := b.found(); why != "" {
		t.Fatal(why)
	}
	b.everyColumn("policy_activation", "bundle", "snapshot", "activated_by")
	b.noticed("policy_bundle", "a text", `UPDATE policy_bundle SET files = replace(files, 'permit', 'forbid')`)
	b.noticed("policy_bundle", "a row", `DELETE FROM policy_bundle`)
	b.noticed("policy_snapshot", "a text", `UPDATE policy_snapshot SET body = '{"tier":"A"}'`)
	b.noticed("policy_snapshot", "a row", `DELETE FROM policy_snapshot`)
	b.noticed("posture_tiers", "a tier", `UPDATE posture_tiers SET tier = 'A' WHERE tier = 'C'`)
	b.noticed("posture_tiers", "a row", `DELETE FROM posture_tiers WHERE tier = 'C'`)
	b.noticed("policy_activation", "a row too many",
		`INSERT INTO policy_activation SELECT 2, bundle, snapshot, activated_by, 2 FROM policy_activation`)
}

// called is a call that was granted for a time, with its rows.
func (b *bench) called(id palyra.CallID, wall time.Duration) {
	b.Helper()
	plan := palyra.Plan{Tool: "palyra.echo", Arguments: json.RawMessage(`{}`), Tier: palyra.TierBuiltin}
	digest, err := plan.Digest()
	b.must(err)
	b.say(palyra.SessionOpened{Session: palyra.SessionID("S" + id), Principal: "agent:local", Workspace: "/w", Surface: "api"},
		palyra.CallProposed{Call: id, Session: palyra.SessionID("S" + id), Principal: "agent:local", Tool: "palyra.echo", Input: "sha256:1"},
		palyra.CallJudged{Call: id, Plan: digest, Effect: palyra.Allow}, palyra.CallGranted{Call: id, Plan: digest, WallMS: wall.Milliseconds()})
	doc, err := json.Marshal(palyra.Call{
		ID: id, Proposal: palyra.Proposal{
			Proposer: palyra.Proposer{Principal: "agent:local", Session: palyra.SessionID("S" + id)}, Arguments: json.RawMessage(`{}`),
		}, Plan: plan,
		Digest: digest, Tool: palyra.Tool{InputSchema: json.RawMessage("null")},
	})
	b.must(err)
	b.insert("sessions", "id", "S"+string(id), "principal", "agent:local", "workspace", "/w", "door", "api", "name", string(id), "labels",
		"[]", "opened_at", 1, "used_at", 1, "calls", 1)
	b.insert("calls", "id", string(id), "session", "S"+string(id), "principal", "agent:local", "tool", "palyra.echo", "state", "granted",
		"approval", "", "input", "sha256:1", "proposed_at", 1, "doc", doc)
}

// asked is the row of a question that user:alice refused.
func (b *bench) asked(id, call, need, digest string) {
	b.Helper()
	b.insert("approvals", "id", id, "seq", id[1:], "session_id", "", "run_id", "", "call_id", call, "principal", "agent:local", "owner", "",
		"peer_uid", 0, "door", "", "requested_at", 1,
		"expires_at", began.UnixNano(), "boot_id", "", "expires_boot", 0, "subject_type", "", "subject_id", "", "plan_digest", digest, "need",
		need, "bundle", "", "snapshot", "", "policies", "",
		"waiting", 0, "decision", "deny", "scope", "", "lease_id", "", "reason", "", "decided_by", "user:alice", "decided_method", "",
		"decided_at", 1, "separation", "")
}

// A call that was granted and has no end when it cannot be running any more is found
// by verifying, and not before.
func TestOverdueCallIsFound(t *testing.T) {
	b := newBench(t)
	b.called("01JCQ00000000000000000CALL", 2*time.Minute)
	after := func(d time.Duration) string {
		t.Helper()
		b.clock = began.Add(d)
		b.say(palyra.DoorFlood{Door: "agent", Count: 1}) // signs a head with this time
		return b.found()
	}
	if why := after(0); why != "" {
		t.Fatalf("at once: %s", why)
	}
	if why := after(2*time.Minute + grace); why != "" {
		t.Errorf("at the last moment: %s", why)
	}
	if why := after(2*time.Minute + grace + time.Millisecond); !strings.Contains(why, "was granted") || !strings.Contains(why, "has no end") {
		t.Errorf("after that: %q", why)
	}
}

// Lines from before the time was kept say nothing of it: such a call is never overdue.
func TestGrantWithoutATimeIsNeverOverdue(t *testing.T) {
	b := newBench(t)
	b.called("01JCQ00000000000000000CALL", 0)
	b.clock = began.Add(1000 * time.Hour)
	b.say(palyra.DoorFlood{Door: "agent", Count: 1})
	if why := b.found(); why != "" {
		t.Error(why)
	}
}

// What is left of the documents of a question that nobody allowed is bound by the
// line that settled it; lines of earlier versions bind nothing.
func TestDocumentsThatWereShrunk(t *testing.T) {
	b := newBench(t)
	need, err := json.Marshal(palyra.Need{Votes: 1})
	b.must(err)
	const plan = `{"tool":"t","arguments":{},"tier":"builtin","limits":{}}`
	raw, err := canon.FromJSON([]byte(plan))
	b.must(err)
	digest := palyra.Digest(canon.Sum("plan/v1", raw))
	sum := func(s string) palyra.Digest { return palyra.SumBytes([]byte(s)) }
	for i, kept := range []palyra.Digest{sum("{}\x00{}\x00{\"diff_bytes\":9}"), ""} {
		id, call := palyra.ApprovalID(fmt.Sprintf("Q%d", i)), palyra.CallID(fmt.Sprintf("C%d", i))
		b.say(palyra.SessionOpened{Session: palyra.SessionID("S" + call), Principal: "agent:local", Surface: "api"},
			palyra.CallProposed{Call: call, Session: palyra.SessionID("S" + call), Principal: "agent:local", Tool: "t", Input: "sha256:1"},
			palyra.CallJudged{Call: call, Plan: digest},
			palyra.ApprovalRequested{
				Approval: id, Call: call, Principal: "agent:local", Plan: digest, Need: palyra.Need{Votes: 1},
				ExpiresAt: began,
			},
			palyra.ApprovalDecided{Approval: id, Call: call, Answer: palyra.AnswerDeny, Plan: digest, By: "user:alice", Kept: kept},
			palyra.CallRefused{Call: call, Layer: "approval", Reason: "approval_denied"})
		outcome, err := palyra.Outcome{
			Outcome: palyra.OutcomeRefused, Tool: "t", Layer: "approval", ReasonCode: "approval_denied", ExitCode: palyra.ExitRefused,
			SessionID: palyra.SessionID("S" + call), CallID: call, ApprovalID: id, PlanDigest: digest,
		}.Marshal()
		b.must(err)
		b.insert("sessions", "id", "S"+string(call), "principal", "agent:local", "workspace", "", "door", "api", "name", string(call), "labels",
			"[]", "opened_at", 1, "used_at", 1, "calls", 1)
		b.insert("calls", "id", string(call), "session", "S"+string(call), "principal", "agent:local", "tool", "t", "state", "refused",
			"approval", string(id), "input", "sha256:1", "proposed_at", 1,
			"doc", fmt.Sprintf(`{"call_id":%q,"proposal":{"principal":"agent:local","session":%q,"arguments":null},"plan":%s,"plan_digest":%q}`,
				call, "S"+call, plan, digest),
			"outcome", outcome)
		b.asked(string(id), string(call), string(need), string(digest))
		b.insert("approval_documents", "approval_id", string(id), "plan", "{}", "prompt", "{}", "left_out", `{"diff_bytes":9}`)
	}
	if why := b.found(); why != "" {
		t.Fatal(why)
	}
	for _, c := range []string{"plan", "prompt", "left_out"} {
		b.noticed("approval_documents", c, "UPDATE approval_documents SET "+c+" = '{\"x\":1}' WHERE approval_id = 'Q0'")
	}
	b.exec(`UPDATE approval_documents SET plan = '{"x":1}' WHERE approval_id = 'Q1'`)
	if why := b.found(); why != "" {
		t.Errorf("an earlier line: %s", why)
	}
}
