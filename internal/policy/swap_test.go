package policy

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"palyra"
)

const generationFiles = 4 // files of a generation

// generation is a bundle of several files, each of which has a part in every answer
// and its generation in every name.
func generation(t testing.TB, g, forbidden string) *Bundle {
	t.Helper()
	files := map[string]string{}
	for i := range generationFiles {
		files[fmt.Sprintf("part%d.cedar", i)] = fmt.Sprintf(`@id("%s-permit-%d") @reason("%s") permit (principal, action, resource);
@id("%s-forbid-%d") @reason("%s") forbid (principal, action == Action::"tool.execute", resource == Tool::"%s");`, g, i, g, g, i, g, forbidden)
	}
	b, report := Check(files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	return b
}

// mixed tells what is wrong with a verdict that must be of one generation only.
func mixed(v palyra.Verdict, of map[palyra.Digest]string, refused map[string]palyra.Effect) string {
	g, ok := of[v.Bundle]
	if !ok {
		return "a bundle that was never in force: " + string(v.Bundle)
	}
	for _, h := range v.Policies {
		if !strings.HasPrefix(h.ID, g+"-") {
			return fmt.Sprintf("generation %s answers with %s", g, h.ID)
		}
	}
	if len(v.Policies) != generationFiles || v.Effect != refused[g] || len(v.Errors) > 0 {
		return fmt.Sprintf("generation %s: %s by %d policies, %v", g, v.Effect, len(v.Policies), v.Errors)
	}
	return ""
}

// However often bundles are swapped under those who ask, every verdict is of one
// of them, whole: its digest, its snapshot and all of its policies.
func TestThousandSwapsUnderLoad(t *testing.T) {
	a, b := generation(t, "a", "palyra.echo"), generation(t, "b", "palyra.sleep")
	of := map[palyra.Digest]string{a.Digest(): "a", b.Digest(): "b"}
	e := engine(t, a)
	snapshots := map[palyra.Digest]palyra.Digest{}
	for _, one := range []*Bundle{a, b} {
		v := engine(t, one).Judge(t.Context(), echo())
		snapshots[one.Digest()] = v.Snapshot
	}
	ask := echo() // refused by a, permitted by b
	var asked, done atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for done.Load() == 0 {
				v := e.Judge(t.Context(), ask)
				asked.Add(1)
				if wrong := mixed(v, of, map[string]palyra.Effect{"a": palyra.Deny, "b": palyra.Allow}); wrong != "" ||
					snapshots[v.Bundle] != v.Snapshot {
					t.Errorf("%s (snapshot %s)", wrong, v.Snapshot)
					return
				}
			}
		})
	}
	for i := range 1000 {
		before := asked.Load()
		next := a
		if i%2 == 0 {
			next = b
		}
		if err := e.Swap(Config{Bundle: next, Snapshot: open()}); err != nil {
			t.Error(err)
		}
		for i%10 == 0 && asked.Load() == before && !t.Failed() { // somebody judges in between
		}
	}
	done.Store(1)
	wg.Wait()
	t.Logf("%d verdicts in 1000 swaps", asked.Load())
}
