//go:build linux

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/audit"
)

// copied is a stopped daemon's state, and what it is checked with.
type copied struct {
	t     testing.TB
	path  string
	trust evidence.Trust
	db    *sql.DB
}

func (d *daemon) copied() *copied {
	d.t.Helper()
	raw, err := d.client(client.OperatorDoor).ExportKeys(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	trust, err := evidence.ParseTrust(raw)
	if err != nil {
		d.t.Fatal(err)
	}
	d.stop()
	path := filepath.Join(d.t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(d.home, "state.db"+suffix))
		if err == nil {
			err = os.WriteFile(path+suffix, b, 0o600)
		} else if suffix != "" {
			err = nil
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	c := &copied{d.t, path, trust, nil}
	c.db = c.opened(path)
	return c
}

// opened opens a state beside every daemon.
func (c *copied) opened(path string) *sql.DB {
	c.t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=journal_mode(DELETE)")
	if err != nil {
		c.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	c.t.Cleanup(func() { _ = db.Close() })
	return db
}

func (c *copied) verify() error {
	_, err := evidence.VerifyJournal(context.Background(), c.path, c.trust, nil)
	return err
}

func (c *copied) exec(query string, args ...any) int64 {
	c.t.Helper()
	res, err := c.db.Exec(query, args...)
	if err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	n, _ := res.RowsAffected()
	return n
}

func (c *copied) list(query string, args ...any) (all []string) {
	c.t.Helper()
	rows, err := c.db.Query(query, args...)
	if err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// noticed makes a change, has the copy checked and undoes it.
func (c *copied) noticed(what, table, change string) {
	c.t.Helper()
	c.exec("CREATE TABLE saved AS SELECT rowid AS r, * FROM " + table)
	changed := c.exec(change)
	err := c.verify()
	if changed > 0 && err == nil {
		c.t.Errorf("%s in %s: the copy verifies", what, table)
	}
	if e := palyra.AsError(err); err != nil && e.Reason != palyra.ReasonVerifyFailed {
		c.t.Errorf("%s in %s: %v", what, table, err)
	}
	columns := strings.Join(c.list("SELECT name FROM pragma_table_info(?)", table), ", ")
	c.exec("DELETE FROM " + table)
	c.exec("INSERT INTO " + table + " (rowid, " + columns + ") SELECT r, " + columns + " FROM saved")
	c.exec("DROP TABLE saved")
}

// zeroed puts zeroes over one page of the file at a time. What the journal, a table
// that is held or an index had there is missed; what is told to be loose may be gone.
func (c *copied) zeroed() {
	c.t.Helper()
	whole, err := os.ReadFile(c.path)
	if err != nil {
		c.t.Fatal(err)
	}
	kept, done := c.path, map[string]bool{} // one page of each kind
	defer func() { c.path = kept }()
	c.path += ".zeroed"
	for page := 1; page*4096 < len(whole); page++ { // the first one is the file's head
		owner := c.list("SELECT name || ' ' || pagetype FROM dbstat WHERE pageno = ?", page+1)
		name, kind, _ := strings.Cut(strings.Join(owner, ""), " ")
		if _, loose := audit.Loose[name]; len(owner) == 0 || done[owner[0]] || loose && !strings.HasPrefix(name, "journal_") {
			continue
		}
		b := slices.Clone(whole)
		clear(b[page*4096 : (page+1)*4096])
		if slices.Equal(b, whole) {
			continue
		}
		done[owner[0]] = true
		if err := os.WriteFile(c.path, b, 0o600); err != nil {
			c.t.Fatal(err)
		}
		if err := c.verify(); err == nil {
			c.t.Errorf("page %d of %s (%s) is zeroed, and the copy verifies", page+1, name, kind)
		}
	}
	if len(done) < 20 {
		c.t.Errorf("%d pages were zeroed", len(done))
	}
}

// Every table of the state is held against the journal, column by column, or it is
// said why not: whoever edits the file beside the daemon is noticed.
func TestEveryTableIsHeldAgainstTheJournal(t *testing.T) {
	d := newDaemon(t)
	d.mustStart("PALYRA_REMOTE_LISTEN=" + freePort(t))
	d.mcpServer("small", true)
	d.paired("laptop", "", "")
	if said, err := d.palyra("sandbox", "doctor", "--json").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	folder := filepath.Join(t.TempDir(), "notes")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	page := "---\nname: notes\ndescription: How notes are written here.\n---\nShortly.\n"
	if err := os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	if said, err := d.palyra("skills", "import", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	person := d.client(client.OperatorDoor)
	_, err1 := person.AddWorkspace(t.Context(), d.work, "w")
	_, err2 := person.AddUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleViewer})
	_, _, err3 := person.AddAgent(t.Context(), "ci", "")
	_, _, err4 := person.AddToken(t.Context(), palyra.Token{Name: "ci", Scopes: []palyra.Permission{"status.view"}}, time.Hour)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	large := write(d.work, "large.txt", strings.Repeat("0123456789abcdef\n", 8<<10))
	if out := d.answered(large, palyra.AnswerDeny, ""); out.ReasonCode != palyra.ReasonApprovalDenied {
		t.Fatalf("%+v", out)
	}
	d.lived() // whose last question is allowed: rows of others may be gone
	r := d.startRun("turns:\n  - say: done\n")
	if _, err := attach(t.Context(), d.client(client.AgentDoor), r.ID, 0); err != nil {
		t.Fatal(err)
	}
	c := d.copied()
	if err := c.verify(); err != nil {
		t.Fatalf("as it was left: %v", err)
	}
	for _, name := range c.list(
		`SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'schema_%'`) {
		if _, ok := audit.Loose[name]; ok {
			continue
		}
		if c.list("SELECT COUNT(*) FROM " + name)[0] == "0" {
			t.Errorf("%s is empty here", name)
			continue
		}
		c.noticed("a row removed", name, fmt.Sprintf("DELETE FROM %s WHERE rowid = (SELECT MAX(rowid) FROM %s)", name, name))
		for _, column := range c.list("SELECT name FROM pragma_table_info(?)", name) {
			if _, ok := audit.Free[name+"."+column]; ok {
				continue
			}
			c.noticed(column, name, fmt.Sprintf(
				`UPDATE OR IGNORE %s SET %s = CASE typeof(%s) WHEN 'integer' THEN %s+1000 WHEN 'blob' THEN CAST(%s || 'x' AS BLOB) WHEN 'null' THEN 'x' ELSE %s || 'x' END
				WHERE rowid = (SELECT MIN(rowid) FROM %s)`, name, column, column, column, column, column, name))
		}
	}
	for _, change := range []string{"'Adds two', 'Adds up two'", `'"type":"number"', '"type":"string"'`, "'read-only', 'idempotent'"} {
		c.noticed("what a tool says", "mcp_tools", "UPDATE mcp_tools SET tool = replace(tool, "+change+
			") WHERE name = 'add' AND tool <> replace(tool, "+change+")")
	}
	if err := c.verify(); err != nil {
		t.Fatalf("as it was left, again: %v", err)
	}
	if n := c.list("SELECT COUNT(*) FROM approval_documents WHERE left_out<>''")[0]; n != "1" {
		t.Errorf("%s questions were shrunk", n)
	}
	c.zeroed()
	c.exec("UPDATE calls SET state='granted', finished_at=0, outcome=NULL WHERE state='finished'")
	if err := c.verify(); err == nil {
		t.Error("calls that lost their ends verify")
	}
}

// An older copy of the whole state starts and verifies: only who kept evidence can
// tell, and the command tells them.
func TestAnOlderStateIsToldByKeptEvidence(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	agent := d.client(client.AgentDoor)
	call := func() palyra.Outcome {
		out, err := agent.Call(t.Context(), echo("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	early := call()
	d.stop()
	old, err := os.ReadFile(filepath.Join(d.home, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	d.mustStart()
	agent = d.client(client.AgentDoor)
	person := d.client(client.OperatorDoor)
	late := call()
	dir := t.TempDir()
	keep := func(name string, raw []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		save(t, filepath.Join(dir, name), raw)
		return filepath.Join(dir, name)
	}
	raw, err := early.Marshal()
	first := keep("early.json", raw, err)
	raw, err = late.Marshal()
	kept := []string{keep("outcome.json", raw, err)}
	raw, err = person.Proof(t.Context(), late.JournalPosition)
	kept = append(kept, keep("proof.json", raw, err))
	head, err := person.Head(t.Context())
	kept = append(kept, keep("checkpoint.txt", []byte(head.Note), err))
	var export strings.Builder
	err = person.ExportJournal(t.Context(), 1, 0, &export)
	kept = append(kept, keep("export.ndjson", []byte(export.String()), err))
	verify := func(files ...string) (int, string) {
		args := []string{"journal", "verify", "--json"}
		for _, f := range files {
			args = append(args, "--against", f)
		}
		cmd := d.palyra(args...)
		said, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(said)
	}
	if code, said := verify(append(kept, first)...); code != 0 || strings.Count(said, `"result":"held"`) != 5 {
		t.Fatalf("exit %d: %s", code, said)
	}
	d.stop()
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(filepath.Join(d.home, "state.db"+suffix))
	}
	save(t, filepath.Join(d.home, "state.db"), old)
	d.mustStart()
	d.verify()
	if code, said := verify(first); code != 0 {
		t.Errorf("what the older state has: exit %d: %s", code, said)
	}
	for _, f := range kept {
		if code, said := verify(f); code != 8 || !strings.Contains(said, `"result":"older"`) {
			t.Errorf("%s: exit %d: %s", f, code, said)
		}
	}
	for range 20 { // it has grown past it, another way
		call2, err := d.client(client.AgentDoor).Call(t.Context(), echo("y"), nil)
		if err != nil || call2.Outcome != palyra.OutcomeFinished {
			t.Fatal(call2, err)
		}
	}
	for _, f := range kept {
		if code, said := verify(f); code != 1 || !strings.Contains(said, `"result":"other"`) {
			t.Errorf("%s: exit %d: %s", f, code, said)
		}
	}
}
