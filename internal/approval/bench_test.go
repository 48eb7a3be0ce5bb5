package approval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
)

const benchPending = 100_000

// crowd is a world with n open questions beside the first, put there in bulk: 32 of
// each principal, all like the template but for who and when. Columns that are
// not named here are the template's.
func crowd(t testing.TB, n int) *world {
	t.Helper()
	w := newWorld(t)
	template := w.ask(call(t, "src/a.txt"))
	differ := map[string]string{
		"id":           `printf('01J%023d', i)`,
		"approval_id":  `printf('01J%023d', i)`,
		"seq":          `i + 1`,
		"session_id":   `printf('S%d', i)`,
		"principal":    `printf('agent:%d', i / 32)`,
		"requested_at": `requested_at + i * 1000`,
		"expires_at":   `expires_at + i * 1000`,
		"expires_boot": `expires_boot + i * 1000`,
		"subject_type": `CASE WHEN i % 1000 = 0 THEN 'secret_access' ELSE subject_type END`,
		"subject_id":   `subject_id || i`,
	}
	err := w.db.Write(t.Context(), "crowd", func(tx *store.Tx) error {
		for table, key := range map[string]string{"approvals": "id", "approval_documents": "approval_id"} {
			columns, err := columnsOf(tx, table)
			if err != nil {
				return err
			}
			values := make([]string, len(columns))
			for i, c := range columns {
				values[i] = cmp.Or(differ[c], c)
			}
			if _, err = tx.Exec(`INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`)
				WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				SELECT `+strings.Join(values, ", ")+` FROM n, `+table+` WHERE `+key+` = ?`, n, template.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func columnsOf(tx *store.Tx, table string) (columns []string, err error) {
	err = tx.Each(`SELECT name FROM pragma_table_info(?)`, []any{table}, func(scan func(...any) error) error {
		var c string
		if err := scan(&c); err != nil {
			return err
		}
		columns = append(columns, c)
		return nil
	})
	return columns, err
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

// decideNth answers the nth question of a crowd of size; all are like the template.
func decideNth(t testing.TB, w *world, template palyra.Approval, n, size int) time.Duration {
	template.ID = benchID(n*37%size + 1)
	start := time.Now()
	if _, err := w.desk.Decide(context.Background(), vote(template, palyra.AnswerAllow)); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func first(t testing.TB, w *world) palyra.Approval {
	a, err := w.desk.Get(t.Context(), benchID(1))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func BenchmarkDecide(b *testing.B) {
	w := crowd(b, benchPending)
	template := first(b, w)
	var took []time.Duration
	n := 0
	for b.Loop() {
		n++
		took = append(took, decideNth(b, w, template, n, benchPending))
	}
	p99(b, took, 100*time.Millisecond)
}

// listings are the lists of a crowd of size that are measured: a few of its questions
// are answered, and one list begins deep inside.
func listings(t testing.TB, w *world, size int) map[string]palyra.ApprovalFilter {
	t.Helper()
	for i := 1; i <= size/1000; i++ {
		a, err := w.desk.Get(t.Context(), benchID(i*500))
		if err != nil {
			t.Fatal(err)
		}
		w.decide(a, []palyra.Answer{palyra.AnswerAllow, palyra.AnswerDeny}[i%2])
	}
	deep := palyra.ApprovalFilter{Pending: true, Limit: int64(size / 200)}
	for range 20 {
		page, err := w.desk.List(t.Context(), deep)
		if err != nil {
			t.Fatal(err)
		}
		deep.Cursor = page.Next
	}
	return map[string]palyra.ApprovalFilter{
		"pending":           {Pending: true},
		"pending-deep":      {Pending: true, Cursor: deep.Cursor},
		"pending-principal": {Pending: true, Principal: palyra.Principal(fmt.Sprintf("agent:%d", size/81))},
		"pending-type":      {Pending: true, SubjectType: palyra.SubjectSecret},
		"oldest":            {OldestFirst: true},
		"denied":            {Answer: palyra.AnswerDeny},
		"session":           {Session: "S77"},
		"subject-none":      {SubjectID: "tool:none#"},
		"since":             {Since: epoch.Add(time.Duration(size) * 500), OldestFirst: true},
	}
}

func BenchmarkList(b *testing.B) {
	w := crowd(b, benchPending)
	for name, f := range listings(b, w, benchPending) {
		f.Limit = 100
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := w.desk.List(context.Background(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// askNth asks something that nobody asked before.
func askNth(t testing.TB, w *world, n int) {
	w.ask(call(t, fmt.Sprintf("src/%d.txt", n), by(palyra.Principal(fmt.Sprintf("agent:new%d", n/30)))))
}

func BenchmarkAsk(b *testing.B) {
	w := crowd(b, benchPending)
	n := 0
	for b.Loop() {
		n++
		askNth(b, w, n)
	}
}

// TestCrowd holds the benchmarks to the schema: a crowd can be made, and everything that
// is measured finds something in it but what is to find nothing.
func TestCrowd(t *testing.T) {
	const size = 2000
	w := crowd(t, size)
	askNth(t, w, 1)
	decideNth(t, w, first(t, w), 1, size)
	for name, f := range listings(t, w, size) {
		f.Limit = 100
		found, err := w.desk.List(t.Context(), f)
		if none := name == "subject-none"; err != nil || (len(found.Approvals) == 0) != none {
			t.Errorf("%s: %d found, %v", name, len(found.Approvals), err)
		}
	}
}
