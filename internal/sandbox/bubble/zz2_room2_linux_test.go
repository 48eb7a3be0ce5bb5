package bubble

import (
	"fmt"
	"os"
	"testing"
	"time"

	"palyra/internal/sandbox/cells"
)

// temporary experiment
func TestYY(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	s := residents()[0]
	if os.Getenv("ZZROOT") != "" {
		s = residents()[1]
	}
	c := configOf(t)
	c.Log = nil
	b := openBackend(t, c)
	st := newSite(t, s)
	st.dir(".git/hooks")
	st.file(".git/config", "")
	names := []string{"plain", "bare", "enter", "scan", "furnish", "launch", "wait", "total"}
	all := make([][]time.Duration, len(names))
	for range zzn() {
		all[0] = append(all[0], timed(func() { plainTrue(t, s) }))
		all[1] = append(all[1], timed(func() { bareTrue(t, s) }))
		j := st.trueJob()
		j.Limits = cells.WithDefaults(j.Limits)
		t0 := time.Now()
		w := b.want(j)
		k := &keeper{b: b, want: w, shows: w.identities()}
		if err := k.enter(); err != nil {
			t.Fatal(err)
		}
		t1 := time.Now()
		if err := k.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		t2 := time.Now()
		if err := k.furnish(t.Context()); err != nil {
			t.Fatal(err)
		}
		t3 := time.Now()
		p, err := b.launch(t.Context(), k, j, false)
		if err != nil {
			t.Fatal(err)
		}
		t4 := time.Now()
		waitFor(t, p)
		t5 := time.Now()
		for i, d := range []time.Duration{t1.Sub(t0), t2.Sub(t1), t3.Sub(t2), t4.Sub(t3), t5.Sub(t4), t5.Sub(t0)} {
			all[2+i] = append(all[2+i], d)
		}
		cells.CloseFiles(j)
		cells.Pause(5*time.Millisecond, nil)
	}
	for i, v := range names {
		fmt.Printf("%-28s p10 %6d p25 %6d p50 %6d  x%.2f x%.2f\n", v, at(all[i], 10).Microseconds(), at(all[i], 25).Microseconds(), at(all[i], 50).Microseconds(), float64(at(all[i], 10))/float64(at(all[1], 10)), float64(at(all[i], 50))/float64(at(all[1], 50)))
	}
}

func zzn() int {
	if os.Getenv("ZZN") != "" {
		return 4
	}
	return 150
}
