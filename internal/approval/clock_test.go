package approval

import (
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
)

func TestPassed(t *testing.T) {
	at := func(wall int64, boot string, since int64) moment { return moment{wall, boot, since} }
	mark := at(1000, "A", 500)
	for name, test := range map[string]struct {
		d      deadline
		m      moment
		passed bool
	}{
		"never":                            {deadline{}, at(1<<60, "B", 1<<60), false},
		"neither":                          {deadline{2000, "A", 1500}, at(1999, "A", 1499), false},
		"wall":                             {deadline{2000, "A", 1500}, at(2000, "A", 0), true},
		"boot":                             {deadline{2000, "A", 1500}, at(0, "A", 1500), true},
		"same boot, mark far ahead":        {deadline{900, "A", 1500}, at(800, "A", 600), false},
		"other boot, wall":                 {deadline{2000, "A", 1500}, at(2000, "B", 0), true},
		"other boot, not yet":              {deadline{2000, "A", 1500}, at(1999, "B", 10), false},
		"other boot, its clock is nothing": {deadline{2000, "A", 5}, at(1500, "B", 10), false},
		"other boot, wall set back":        {deadline{1001, "A", 1500}, at(5, "B", 1), true},
		"other boot, before the mark":      {deadline{999, "A", 1500}, at(5, "B", 0), true},
	} {
		c := &clock{mark: mark}
		if got := c.passed(test.d, test.m); got != test.passed {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestFloorNeverFalls(t *testing.T) {
	c := &clock{mark: moment{1000, "A", 500}}
	for _, test := range []struct {
		m    moment
		want int64
	}{
		{moment{2000, "A", 600}, 2000},
		{moment{5, "A", 600}, 1100},
		{moment{5, "A", 0}, 1000}, // a clock of the boot that went back is no clock
		{moment{5, "B", 30}, 1030},
		{moment{2000, "B", 30}, 2000},
	} {
		if got := c.floor(test.m); got != test.want {
			t.Errorf("%+v: %d, want %d", test.m, got, test.want)
		}
	}
}

// However the wall clock is set, and however often the machine starts anew, a
// question lives no longer than its wait, as far as time can be known to pass.
func TestSettingTheClockBackNeverExtends(t *testing.T) {
	for name, back := range map[string]func(*world, time.Duration){
		"same boot": func(w *world, d time.Duration) { w.jump(-time.Hour, d) },
		"reboot": func(w *world, d time.Duration) {
			w.pass(time.Minute)
			if err := w.db.Write(t.Context(), "approval.clock", func(tx *store.Tx) error {
				return w.desk.clock.save(tx, w.desk.clock.read())
			}); err != nil {
				t.Fatal(err)
			}
			w.reboot("boot-2", -time.Hour)
			w.pass(d - time.Minute)
		},
		"two reboots": func(w *world, d time.Duration) {
			w.reboot("boot-2", -time.Hour)
			w.pass(d / 2)
			if err := w.db.Write(t.Context(), "approval.clock", func(tx *store.Tx) error {
				return w.desk.clock.save(tx, w.desk.clock.read())
			}); err != nil {
				t.Fatal(err)
			}
			w.reboot("boot-3", -time.Hour)
			w.pass(d / 2)
		},
	} {
		w := newWorld(t)
		c := call(t, "src/a.txt")
		lease := w.decide(w.ask(c), palyra.AnswerAllow, scoped(palyra.ScopeTimeboxed), ttl(4*time.Minute)).Decision.Lease
		a := w.ask(call(t, "src/b.txt"))
		back(w, 5*time.Minute)
		if _, err := w.desk.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.get(a.ID).Decision.Answer; got != palyra.AnswerTimeout {
			t.Errorf("%s: the question is %q", name, got)
		}
		if l, _ := w.desk.Lease(t.Context(), lease); l.Ended != "expired" {
			t.Errorf("%s: the lease is %+v", name, l)
		}
	}
}

func TestDeadlinesSurviveARestartAndAReboot(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	w.pass(time.Minute)
	w.restart()
	w.pass(time.Minute)
	w.reboot("boot-2", time.Minute) // three minutes in
	if got, err := w.desk.sweep(t.Context()); err != nil || !w.get(a.ID).Pending() || got.wall != a.ExpiresAt.UnixNano() {
		t.Fatalf("next %+v, %v, %+v", got, err, w.get(a.ID).Decision)
	}
	w.jump(-time.Hour, 2*time.Minute-time.Nanosecond) // on the new boot's clock two minutes are left
	if _, err := w.desk.sweep(t.Context()); err != nil || !w.get(a.ID).Pending() {
		t.Fatalf("%v, %+v", err, w.get(a.ID).Decision)
	}
	w.jump(0, time.Nanosecond)
	if _, err := w.desk.sweep(t.Context()); err != nil || w.get(a.ID).Decision.Answer != palyra.AnswerTimeout {
		t.Fatalf("%v, %+v", err, w.get(a.ID).Decision)
	}
}

// A clock that ran ahead once does not shorten what is asked later.
func TestAClockThatRanAheadIsForgiven(t *testing.T) {
	w := newWorld(t)
	w.jump(1000*time.Hour, 0)
	w.ask(call(t, "src/a.txt"))
	w.jump(-1000*time.Hour, 0)
	w.restart()
	a := w.ask(call(t, "src/b.txt"))
	w.pass(5*time.Minute - 1)
	if _, err := w.desk.sweep(t.Context()); err != nil || !w.get(a.ID).Pending() {
		t.Errorf("%v, %+v", err, w.get(a.ID).Decision)
	}
	w.pass(1)
	if _, err := w.desk.sweep(t.Context()); err != nil || w.get(a.ID).Pending() {
		t.Errorf("%v, still pending", err)
	}
}

func TestTheMarkIsKeptWithDeadlines(t *testing.T) {
	w := newWorld(t)
	stored := func() (m moment) {
		err := w.db.Read(t.Context(), func(tx *store.Tx) error {
			return tx.Get(`SELECT wall, boot_id, since_boot FROM approval_clock`, nil, &m.wall, &m.boot, &m.since)
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	w.pass(time.Minute)
	w.ask(call(t, "src/a.txt"))
	if got := stored(); got != w.desk.clock.read() {
		t.Errorf("mark %+v, now %+v", got, w.desk.clock.read())
	}
	before := stored()
	w.pass(time.Second)
	w.ask(call(t, "src/b.txt"))
	if got := stored(); got != before {
		t.Errorf("a fresh mark was written again: %+v", got)
	}
	w.pass(time.Minute)
	w.desk.keepMark(t.Context(), w.desk.clock.read())
	if got := stored(); got != w.desk.clock.read() {
		t.Errorf("mark %+v, now %+v", got, w.desk.clock.read())
	}
}

// The wait begins when the question is made, not when it is recorded.
func TestTheWaitCountsFromTheQuestion(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	a, _, err := w.desk.Prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	w.pass(4 * time.Minute)
	if err := w.record(c, requested(c, a)); err != nil {
		t.Fatal(err)
	}
	w.jump(-time.Hour, time.Minute)
	if _, err := w.desk.sweep(t.Context()); err != nil || w.get(a.ID).Pending() {
		t.Errorf("%v, still pending after five minutes", err)
	}
}
