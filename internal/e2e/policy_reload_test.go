//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/client/bundle"
)

// genParts is how many files each have a part in the answer of a generation.
const genParts = 4

// generation is the default bundle and files that only together are consistent:
// each has a rule that speaks about every echo, under the generation's name, and
// the bundle's own test wants all of them. Every other generation refuses.
func generation(t testing.TB, g string, refuses bool) map[string]string {
	t.Helper()
	files, err := bundle.Preset("ask")
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "tests/") }) // which say what the preset itself says
	effect, verdict := "permit", "allow"
	if refuses {
		effect, verdict = "forbid", "deny"
	}
	var ids []string
	for i := range genParts {
		ids = append(ids, fmt.Sprintf("gen-%s-%d", g, i))
		files[fmt.Sprintf("gen%d.cedar", i)] = fmt.Sprintf(
			"@id(%q) @reason(%q)\n%s (principal, action == Action::\"tool.execute\", resource == Tool::\"palyra.echo\");\n", ids[i],
			"generation "+g, effect)
	}
	files["tests/gen.yaml"] = fmt.Sprintf("tests:\n- {name: whole, request: {tool: palyra.echo}, expect: {verdict: %s, policies: [%s]}}\n",
		verdict, strings.Join(ids, ", "))
	return files
}

// reloads is a daemon whose bundles change under load.
type reloads struct {
	*daemon
	rng    *rand.Rand
	dir    string
	texts  map[string]map[string]string // by generation
	digest map[string]palyra.Digest
	of     map[palyra.Digest]string
	last   string       // in force for all that anybody was told
	trying atomic.Value // what may have come into force since
	judged atomic.Int64
}

func newReloads(t *testing.T) *reloads {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &reloads{
		daemon: newDaemon(t), rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(),
		texts: map[string]map[string]string{}, digest: map[string]palyra.Digest{}, of: map[palyra.Digest]string{},
	}
	for i, g := range []string{"a", "b", "c", "d"} {
		r.texts[g] = generation(t, g, i%2 == 0)
	}
	r.lay(r.texts["a"], false)
	r.run()
	for g, files := range r.texts {
		c, err := r.client(client.OperatorDoor).CheckPolicy(t.Context(), files)
		if err != nil || c.Bundle == "" || len(c.Problems) > 0 {
			t.Fatalf("generation %s: %+v, %v", g, c, err)
		}
		r.digest[g], r.of[c.Bundle] = c.Bundle, g
	}
	r.last = "a"
	return r
}

func (r *reloads) run() {
	r.t.Helper()
	r.mustStart(slices.Concat(unlimited, []string{"PALYRA_POLICY_DIR=" + r.dir})...)
}

// lay writes a bundle into the directory, file by file, in any order.
func (r *reloads) lay(files map[string]string, torn bool) {
	r.t.Helper()
	for name, text := range files {
		p := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if torn { // as editors do that do not rename
			_ = os.WriteFile(p, []byte(text[:len(text)/2]), 0o644)
			_ = r.cmd.Process.Signal(syscall.SIGHUP)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// whole tells what is wrong with an answer that must be of one generation.
func (r *reloads) whole(digest palyra.Digest, effect palyra.Effect, ids []string) string {
	g, ok := r.of[digest]
	if !ok {
		return fmt.Sprintf("bundle %s was never applied", digest)
	}
	n := 0
	for _, id := range ids {
		if !strings.HasPrefix(id, "gen-") {
			continue
		}
		if !strings.HasPrefix(id, "gen-"+g+"-") {
			return fmt.Sprintf("generation %s answers by %s", g, id)
		}
		n++
	}
	want := map[bool]palyra.Effect{true: palyra.Deny, false: palyra.Allow}[g == "a" || g == "c"]
	if n != genParts || effect != want {
		return fmt.Sprintf("generation %s: %s by %d of %d parts (%q)", g, effect, n, genParts, ids)
	}
	return ""
}

// asker judges until the daemon is gone, and holds every answer to one generation.
func (r *reloads) asker(ctx context.Context, person, agent *client.Client, i int) {
	for ctx.Err() == nil {
		if i%2 == 0 {
			if _, err := agent.Call(ctx, echo("load"), nil); err != nil {
				return
			}
			r.judged.Add(1) // the journal is held against it later
			continue
		}
		why, err := person.Why(ctx, client.WhyRequest{Tool: "palyra.echo", Arguments: json.RawMessage(`{"text":"x"}`)})
		if err != nil {
			return
		}
		r.judged.Add(1)
		var ids []string
		for _, h := range why.Verdict.Policies {
			ids = append(ids, h.ID)
		}
		if wrong := r.whole(why.Verdict.Bundle, why.Verdict.Effect, ids); wrong != "" {
			r.t.Errorf("%s", wrong)
			return
		}
	}
}

// apply puts another generation into force by a request.
func (r *reloads) apply(ctx context.Context, person *client.Client) error {
	g := map[bool]string{true: "d", false: "c"}[r.last == "c"]
	r.trying.Store(g)
	if _, _, err := person.ApplyPolicy(ctx, r.texts[g], false); err != nil {
		return err
	}
	r.last = g
	return nil
}

// hangup puts another generation into force by the directory. Signals come while it
// is written, too.
func (r *reloads) hangup(ctx context.Context, person *client.Client, g string) error {
	r.trying.Store(g)
	r.lay(r.texts[g], r.rng.IntN(2) == 0)
	for {
		_ = r.cmd.Process.Signal(syscall.SIGHUP)
		for range 40 {
			s, err := person.Status(ctx)
			if err != nil {
				return err
			}
			if s.Bundle == r.digest[g] {
				r.last = g
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// round makes n changes under load. With kill it ends in the middle of one.
func (r *reloads) round(n int, kill bool, dirNext *bool) (done int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	asking, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range 4 {
		person, agent := r.client(client.OperatorDoor), r.client(client.AgentDoor)
		wg.Go(func() { r.asker(asking, person, agent, i) })
	}
	person := r.client(client.OperatorDoor)
	for done = 0; done < n; done++ {
		if kill && done == n-1 {
			after := time.Duration(r.rng.IntN(150)) * time.Millisecond
			wg.Go(func() {
				<-time.After(after)
				r.kill()
			})
		}
		var err error
		if done%2 == 0 {
			err = r.apply(ctx, person)
		} else {
			*dirNext = !*dirNext
			err = r.hangup(ctx, person, map[bool]string{true: "b", false: "a"}[*dirNext])
		}
		if err != nil {
			if !kill || done != n-1 {
				r.t.Fatalf("change %d: %v\n%s", done, err, r.log)
			}
			break
		}
	}
	if kill {
		<-r.done
	}
	stop()
	wg.Wait()
	return done
}

// after a start what judges is what the journal has last, and it is what was in
// force when the daemon died, or what was coming.
func (r *reloads) after(t *testing.T) {
	t.Helper()
	digest, _ := inForce(t, r.daemon)
	g := r.of[digest]
	if g != r.last && g != r.trying.Load() && g != r.laid(t) {
		t.Fatalf("generation %q is in force; it was %s, and %v was coming", g, r.last, r.trying.Load())
	}
	r.last = g
	r.verify()
}

// laid is the generation whose files are all in the directory.
func (r *reloads) laid(t *testing.T) string {
	t.Helper()
	for g, files := range r.texts {
		whole := true
		for name, text := range files {
			raw, _ := os.ReadFile(filepath.Join(r.dir, name))
			whole = whole && string(raw) == text
		}
		if whole {
			return g
		}
	}
	return ""
}

// journalled holds every judgement on record to one generation.
func (r *reloads) journalled(t *testing.T) int {
	t.Helper()
	n := 0
	for _, e := range r.entries() {
		raw, _ := json.Marshal(e.Body)
		var judged palyra.CallJudged
		if e.Kind != judged.Kind() {
			continue
		}
		if err := json.Unmarshal(raw, &judged); err != nil {
			t.Fatal(err)
		}
		n++
		if wrong := r.whole(judged.Bundle, judged.Effect, judged.Policies); wrong != "" {
			t.Errorf("journal %d: %s", e.Seq, wrong)
		}
	}
	return n
}

// Bundles change by requests and by signals, under load, with the directory being
// written and the daemon being killed: no verdict is of half a bundle, and after
// every death what is on record last is in force. All thousand with 'make faults'.
func TestThousandReloadsUnderLoad(t *testing.T) {
	changes, kills := 20, 3
	if os.Getenv("PALYRA_FAULTS") == "full" {
		changes, kills = 1000, 50
	}
	r := newReloads(t)
	dirNext, made := false, 0
	for round := range kills + 1 {
		kill := round < kills
		n := changes/(kills+1) + r.rng.IntN(3)
		if !kill {
			n = max(changes-made, 1)
		}
		made += r.round(n, kill, &dirNext)
		if kill {
			r.lay(r.texts[map[bool]string{true: "b", false: "a"}[dirNext]], false) // whoever was writing finishes
			r.run()
		}
		r.after(t)
	}
	if made < changes {
		t.Errorf("only %d changes", made)
	}
	if n := r.journalled(t); n == 0 || r.judged.Load() == 0 {
		t.Error("nothing was judged")
	}
	t.Logf("%d changes, %d kills, %d answers", made, kills, r.judged.Load())
	r.stop()
}
