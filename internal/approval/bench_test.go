package approval

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
)

const benchPending = 100_000

// crowd is a world with benchPending open questions, put there in bulk: 3,125
// principals with 32 each, all like the template but for who and when.
func crowd(b *testing.B) *world {
	b.Helper()
	w := newWorld(b)
	template := w.ask(call(b, "src/a.txt"))
	err := w.db.Write(b.Context(), "crowd", func(tx *store.Tx) error {
		_, err := tx.Exec(`CREATE TABLE numbers AS
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO approvals (`+recordColumns+`)
			SELECT printf('01J%023d', i), i + 1, printf('S%d', i), run_id, call_id, printf('agent:%d', i / 32), owner, peer_uid, door,
				requested_at + i * 1000, expires_at + i * 1000, boot_id, expires_boot + i * 1000, CASE WHEN i % 1000 = 0 THEN 'secret_access' ELSE subject_type END,
				subject_id || i, plan_digest, need, bundle, snapshot, policies, waiting, decision, scope, lease_id, reason, decided_by,
				decided_method, decided_at, separation
			FROM numbers, approvals WHERE approvals.id = ?`, template.ID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO approval_documents SELECT printf('01J%023d', i), plan, prompt FROM numbers, approval_documents
			WHERE approval_id = ?`, template.ID)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func benchID(i int) palyra.ApprovalID { return palyra.ApprovalID(fmt.Sprintf("01J%023d", i)) }

// p99 reports the 99th percentile and fails above the most.
func p99(b *testing.B, took []time.Duration, most time.Duration) {
	slices.Sort(took)
	at := took[len(took)*99/100]
	b.ReportMetric(float64(at.Microseconds())/1000, "p99-ms")
	if at > most && len(took) > 100 {
		b.Errorf("p99 %s, want at most %s", at, most)
	}
}

func BenchmarkDecide(b *testing.B) {
	w := crowd(b)
	template, err := w.desk.Get(b.Context(), benchID(1))
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	n := 0
	for b.Loop() {
		n++
		template.ID = benchID(n * 37 % benchPending)
		start := time.Now()
		if _, err := w.desk.Decide(context.Background(), vote(template, palyra.AnswerAllow)); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	p99(b, took, 100*time.Millisecond)
}

func BenchmarkList(b *testing.B) {
	w := crowd(b)
	for i := 1; i <= 100; i++ { // a few answers among the many questions
		a, err := w.desk.Get(b.Context(), benchID(i*500))
		if err != nil {
			b.Fatal(err)
		}
		w.decide(a, []palyra.Answer{palyra.AnswerAllow, palyra.AnswerDeny}[i%2])
	}
	pending, settled := true, false
	deep, err := func() (string, error) {
		f := Filter{Pending: &pending, Limit: 500}
		for range 20 {
			_, next, err := w.desk.List(context.Background(), f)
			if err != nil {
				return "", err
			}
			f.Cursor = next
		}
		return f.Cursor, nil
	}()
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]Filter{
		"pending":           {Pending: &pending},
		"pending-deep":      {Pending: &pending, Cursor: deep},
		"pending-principal": {Pending: &pending, Principal: "agent:1234"},
		"pending-type":      {Pending: &pending, SubjectType: palyra.SubjectSecret},
		"settled":           {Pending: &settled, Order: Oldest},
		"denied":            {Answer: palyra.AnswerDeny},
		"session":           {Session: "S77"},
		"subject-none":      {SubjectID: "tool:none#"},
		"since":             {Since: epoch.Add(50 * time.Millisecond), Order: Oldest},
	} {
		f.Limit = 100
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := w.desk.List(context.Background(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAsk(b *testing.B) {
	w := crowd(b)
	n := 0
	for b.Loop() {
		n++
		w.ask(call(b, fmt.Sprintf("src/%d.txt", n), by(palyra.Principal(fmt.Sprintf("agent:new%d", n/30)))))
	}
}
