package bubble

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// temporary experiment
func TestZZ(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	s := residents()[0]
	if os.Getenv("ZZROOT") != "" {
		s = residents()[1]
	}
	r := newRoom(t, s)
	b := theBwrap(t)
	run := func(change func([]string) []string, stop string) time.Duration {
		begun := time.Now()
		a := &roomArgs{}
		a.pass(devNull(t))
		a.pass(devNull(t))
		if err := b.furnish(a, r); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			a.words = change(a.words)
		}
		argv, err := a.argv("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		if stop != "" {
			a.cleanup()
			return time.Since(begun)
		}
		cmd := &exec.Cmd{Path: b.exe(), Args: argv, Env: []string{}, ExtraFiles: a.files, Dir: "/", SysProcAttr: bwrapAttr(r.uid, r.gid)}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v %s", err, out)
		}
		a.cleanup()
		return time.Since(begun)
	}
	drop := func(n int, names ...string) func([]string) []string {
		return func(w []string) (out []string) {
			for i := 0; i < len(w); i++ {
				hit := false
				for _, x := range names {
					if w[i] == x {
						hit = true
					}
				}
				if hit {
					i += n - 1
					continue
				}
				out = append(out, w[i])
			}
			return out
		}
	}
	variants := []struct {
		name string
		do   func() time.Duration
	}{
		{"bare", func() time.Duration { return timed(func() { bareTrue(t, s) }) }},
		{"args only", func() time.Duration { return run(nil, "x") }},
		{"full", func() time.Duration { return run(nil, "") }},
		{"no files", func() time.Duration { return run(func(w []string) []string {
			return drop(5, "--perms-none")(dropFiles(w))
		}, "") }},
		{"no caps", func() time.Duration { return run(drop(2, "--cap-add"), "") }},
		{"no tmpfs", func() time.Duration { return run(func(w []string) []string {
			var out []string
			for i := 0; i < len(w); i++ {
				if w[i] == "--perms" && i+4 < len(w) && w[i+4] == "--tmpfs" {
					if strings.HasPrefix(w[i+5], "/dev") { i += 5; continue }
					out = append(out, "--perms", w[i+1], "--dir", w[i+5])
					i += 5
					continue
				}
				out = append(out, w[i])
			}
			return out
		}, "") }},
		{"no disable-userns", func() time.Duration { return run(drop(1, "--disable-userns"), "") }},
		{"no remount", func() time.Duration { return run(drop(2, "--remount-ro"), "") }},
		{"no proc/sys", func() time.Duration { return run(func(w []string) []string {
			return strings.Split(strings.Replace(strings.Join(w, "\x00"), "--ro-bind\x00/proc/sys\x00/proc/sys\x00", "", 1), "\x00")
		}, "") }},
		{"no symlink", func() time.Duration { return run(drop(3, "--symlink-x"), "") }},
		{"no new-session/as-pid-1", func() time.Duration { return run(drop(1, "--as-pid-1"), "") }},
	}
	all := make([][]time.Duration, len(variants))
	for range 150 {
		for i, v := range variants {
			all[i] = append(all[i], v.do())
		}
	}
	for i, v := range variants {
		fmt.Printf("%-28s p10 %6d p25 %6d p50 %6d  x%.2f x%.2f\n", v.name, at(all[i], 10).Microseconds(), at(all[i], 25).Microseconds(), at(all[i], 50).Microseconds(), float64(at(all[i], 10))/float64(at(all[0], 10)), float64(at(all[i], 50))/float64(at(all[0], 50)))
	}
}

func dropFiles(w []string) (out []string) {
	for i := 0; i < len(w); i++ {
		if w[i] == "--perms" && i+2 < len(w) && w[i+2] == "--file" {
			i += 4
			continue
		}
		out = append(out, w[i])
	}
	return out
}
