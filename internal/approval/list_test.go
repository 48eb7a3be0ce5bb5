package approval

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/ulid"
)

// population asks a number of questions and settles some; newest last.
func population(t *testing.T, w *world) []palyra.Approval {
	t.Helper()
	answers := []palyra.Answer{palyra.AnswerPending, palyra.AnswerAllow, palyra.AnswerDeny, palyra.AnswerError}
	var all []palyra.Approval
	for i := range 24 {
		options := []callOption{by(palyra.Principal(fmt.Sprintf("agent:%d", i%3))), inSession([]palyra.SessionID{session1, session2}[i%2])}
		if i%5 == 0 {
			options = append(options, func(c *palyra.Call) {
				c.Verdict.Pairs = []palyra.PairResult{{Pair: palyra.Pair{Action: "vault.use", Resource: `Secret::"s"`}, Effect: palyra.Ask}}
			})
		}
		c := call(t, fmt.Sprintf("src/%d.txt", i), options...)
		a := w.ask(c)
		switch answer := answers[i%4]; answer {
		case palyra.AnswerAllow, palyra.AnswerDeny:
			w.decide(a, answer)
		case palyra.AnswerError:
			if err := w.record(c, palyra.ApprovalWithdrawn{Approval: a.ID, Call: c.ID}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, w.get(a.ID))
		if i%4 != 0 { // some share their time of request
			w.pass(time.Second)
		}
	}
	return all
}

func pages(t *testing.T, w *world, f palyra.ApprovalFilter) (got []palyra.ApprovalID) {
	t.Helper()
	for n := 0; ; n++ {
		page, err := w.desk.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		next, n64 := page.Next, int64(len(page.Approvals))
		if f.Limit > 0 && n64 > f.Limit || next != "" && n64 == 0 || n > 100 {
			t.Fatalf("page of %d, next %q", n64, next)
		}
		for _, a := range page.Approvals {
			got = append(got, a.ID)
		}
		if f.Cursor = next; next == "" {
			return got
		}
	}
}

func TestListAgainstAPlainFilter(t *testing.T) {
	w := newWorld(t)
	all := population(t, w)
	states := []palyra.ApprovalFilter{
		{}, {Pending: true}, {Answer: palyra.AnswerAllow}, {Answer: palyra.AnswerError}, {Answer: palyra.AnswerTimeout},
	}
	columns := []palyra.ApprovalFilter{
		{},
		{Principal: "agent:1"},
		{Session: session2},
		{SubjectType: palyra.SubjectSecret},
		{SubjectID: all[4].SubjectID},
		{Principal: "agent:0", Session: session1, SubjectType: palyra.SubjectTool},
		{Principal: "agent:none"},
	}
	times := []palyra.ApprovalFilter{
		{},
		{Since: all[5].RequestedAt},
		{Until: all[12].RequestedAt},
		{Since: all[3].RequestedAt, Until: all[20].RequestedAt},
	}
	for _, s := range states {
		for _, c := range columns {
			for _, tm := range times {
				for _, oldest := range []bool{false, true} {
					f := palyra.ApprovalFilter{
						Pending: s.Pending, Answer: s.Answer, Principal: c.Principal, Session: c.Session, SubjectType: c.SubjectType,
						SubjectID: c.SubjectID, Since: tm.Since, Until: tm.Until, OldestFirst: oldest,
					}
					var want []palyra.ApprovalID
					for _, a := range all {
						if concerns(f, a) && (!f.Pending || a.Pending()) && (f.Answer == "" || f.Answer == a.Decision.Answer) &&
							!a.RequestedAt.Before(f.Since) && (f.Until.IsZero() || a.RequestedAt.Before(f.Until)) {
							want = append(want, a.ID)
						}
					}
					if !oldest {
						slices.Reverse(want)
					}
					f.Limit = 3
					if got := pages(t, w, f); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%+v: %d items %v, want %d %v", f, len(got), got, len(want), want)
					}
				}
			}
		}
	}
}

func TestListRefuses(t *testing.T) {
	w := newWorld(t)
	population(t, w)
	page, err := w.desk.List(t.Context(), palyra.ApprovalFilter{Limit: 1})
	next := page.Next
	if err != nil || next == "" {
		t.Fatal(next, err)
	}
	long := strings.Repeat("x", maxText+1)
	for _, f := range []palyra.ApprovalFilter{
		{Limit: -1},
		{Limit: MaxLimit + 1},
		{Answer: "maybe"},
		{Pending: true, Answer: palyra.AnswerDeny},
		{Cursor: "x"},
		{Cursor: next + "A"},
		{Cursor: strings.ToLower(next)},
		{Cursor: next, OldestFirst: true},
		{Cursor: next, Principal: "agent:1"},
		{Cursor: next, Session: session1},
		{Cursor: next, Pending: true},
		{SubjectID: long},
		{Principal: palyra.Principal(long)},
		{Session: palyra.SessionID(long)},
		{SubjectType: palyra.SubjectType(long)},
		{Since: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Until: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)},
	} {
		if page, err := w.desk.List(t.Context(), f); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%.80v: %d items, %v", f, len(page.Approvals), err)
		}
	}
	if _, err := w.desk.List(t.Context(), palyra.ApprovalFilter{Cursor: next, Limit: 7}); err != nil {
		t.Errorf("another limit: %v", err)
	}
}

func TestAPageOfLargeDocumentsEndsEarly(t *testing.T) {
	w := newWorld(t)
	var want []palyra.ApprovalID
	for i := range 4 {
		c := call(t, fmt.Sprintf("src/%d.txt", i))
		c.Plan.Detail.Diff = strings.Repeat("+x\n", pageBytes/6)
		want = append(want, w.ask(c).ID)
		w.pass(time.Second)
	}
	page, err := w.desk.List(t.Context(), palyra.ApprovalFilter{OldestFirst: true})
	if err != nil || len(page.Approvals) == 4 || page.Next == "" {
		t.Errorf("%d in a page, next %q, %v", len(page.Approvals), page.Next, err)
	}
	if got := pages(t, w, palyra.ApprovalFilter{OldestFirst: true}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// No list walks a table, and none sorts what an index already has in order.
func TestEveryQueryUsesAnIndex(t *testing.T) {
	w := newWorld(t)
	var queries []query
	for _, f := range []palyra.ApprovalFilter{
		{},
		{Principal: "p"},
		{Session: "s"},
		{SubjectType: "t"},
		{SubjectID: "i"},
		{Principal: "p", SubjectType: "t"},
	} {
		for _, state := range []palyra.ApprovalFilter{{}, {Pending: true}, {Answer: palyra.AnswerDeny}} {
			for _, oldest := range []bool{true, false} {
				f.Pending, f.Answer, f.OldestFirst = state.Pending, state.Answer, oldest
				q, err := approvalQuery(f)
				if err != nil {
					t.Fatal(err)
				}
				queries = append(queries, q)
			}
		}
	}
	for _, ended := range []bool{true, false} {
		for _, f := range []palyra.LeaseFilter{{}, {Session: "s"}, {Principal: "p"}} {
			f.Ended = ended
			q, _ := leaseQuery(f)
			queries = append(queries, q)
		}
	}
	texts := map[string]bool{}
	for _, q := range queries {
		texts[q.text] = true
		plan := explainPlan(t, w, q.text, q.args...)
		if strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN") && !strings.Contains(plan, "INDEX") {
			t.Errorf("%s\n%s", q.text, plan)
		}
	}
	if len(texts) > 64 {
		t.Errorf("%d distinct statements: the store's cache is bounded", len(texts))
	}
	for _, q := range append(slices.Concat(dueApprovals, dueLeases),
		`SELECT 1 FROM approvals WHERE decision = '' AND principal = ? AND expires_at > ? LIMIT ?`,
		`SELECT id FROM approvals WHERE decision = '' AND session_id = ? AND plan_digest = ? AND principal = ?`,
		`SELECT COALESCE(MAX(seq), 0) + 1 FROM approvals`,
		`SELECT id FROM approval_leases WHERE ended = '' AND session_id = ? AND principal = ? AND tool = ? AND plan_digest = ?`,
		`SELECT id FROM approval_leases WHERE ended = '' AND session_id = ?`,
		`SELECT id FROM approvals WHERE decision = '' AND session_id = ?`,
		`SELECT COALESCE(MIN(expires_boot), 0) FROM approvals WHERE decision = '' AND boot_id = ?`,
	) {
		if plan := explainPlan(t, w, q, make([]any, strings.Count(q, "?"))...); !strings.Contains(plan, "INDEX") ||
			strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s\n%s", q, plan)
		}
	}
}

func explainPlan(t *testing.T, w *world, q string, args ...any) string {
	t.Helper()
	var plan []string
	err := w.db.Read(t.Context(), func(tx *store.Tx) error {
		return tx.Each("EXPLAIN QUERY PLAN "+q, args, func(scan func(...any) error) error {
			var id, parent, unused int
			var detail string
			err := scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		})
	})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return strings.Join(plan, "\n")
}

// Property: what parses is what String writes, and names a real key.
func FuzzCursor(f *testing.F) {
	const tag = "0123abcd"
	good := cursor{at: 1234567890, id: string(newID()), tag: tag}.String()
	for _, s := range []string{
		good, "", "x", good + "=", good[1:], cursor{at: -1, id: string(newID()), tag: tag}.String(),
		cursor{tag: tag}.String(),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCursor(s, tag)
		if err != nil {
			if palyra.CodeOf(err) != palyra.Invalid {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if c.String() != s || !ulid.Valid(string(c.id)) || c.tag != tag {
			t.Fatalf("%q parsed as %+v, which writes %q", s, c, c.String())
		}
	})
}

// A forged cursor cannot reach outside the filter's time.
func TestCursorStaysInItsSpan(t *testing.T) {
	for _, oldest := range []bool{true, false} {
		for _, at := range []int64{-1 << 62, 0, 5, 10, 15, 20, 25, 1 << 62} {
			s := spanOf(time.Unix(0, 10), time.Unix(0, 20))
			s.startAfter(cursor{at: at, id: "X"}, oldest)
			if s.low < 10 || s.high > 20 {
				t.Errorf("%v %d: %+v", oldest, at, s)
			}
		}
	}
}
