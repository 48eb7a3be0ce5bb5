//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// endsWithin is how long a busy machine is given for what is promised within a second.
// Whatever is tried goes on for minutes where nothing ends it, so that the answer is
// the same on any machine.
const endsWithin = time.Minute

// hostileSearch is about the heaviest search that is let in: alone it would go on for
// hours.
func hostileSearch(d *daemon) client.CallRequest {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.work, "bundle.js"), []byte(strings.Repeat(strings.Repeat("a", 64<<10)+"\n", 120)),
		0o644); err != nil {
		d.t.Fatal(err)
	}
	return request(d, "palyra.fs.search", map[string]any{"pattern": ".{0,1000}.{0,1000}Q"})
}

func request(d *daemon, tool string, args map[string]any) client.CallRequest {
	d.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		d.t.Fatal(err)
	}
	return client.CallRequest{Tool: palyra.ToolName(tool), Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
}

// begin proposes a call and returns when it is on record.
func begin(ctx context.Context, t *testing.T, c *client.Client, r client.CallRequest) (palyra.CallID, <-chan answer) {
	t.Helper()
	id, ch := make(chan palyra.CallID, 1), make(chan answer, 1)
	go func() {
		out, err := c.Call(ctx, r, func(e client.CallEvent) {
			if e.Accepted != nil {
				id <- e.Accepted.CallID
			}
		})
		ch <- answer{out, err}
	}()
	select {
	case i := <-id:
		return i, ch
	case x := <-ch:
		t.Fatalf("%+v", x)
	}
	return "", nil
}

// running waits until a call has been granted.
func running(ctx context.Context, t *testing.T, c *client.Client, id palyra.CallID) {
	t.Helper()
	for {
		x, err := c.GetCall(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if x.State == palyra.Granted || x.State == palyra.Running {
			return
		}
		if x.State == palyra.Finished || x.State == palyra.Refused {
			t.Fatalf("it ended: %s", x.State)
		}
	}
}

// A search that would take hours ends by its limit, by cancel and with the daemon, and
// is on record as what it was.
func TestHostileSearchEnds(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	search := hostileSearch(d)

	limited := search
	limited.Timeout = time.Second
	start := time.Now()
	out, err := agent.Call(t.Context(), limited, nil)
	if took := time.Since(start); err != nil || out.ReasonCode != palyra.ReasonTimedOut || out.Outcome != palyra.OutcomeTimedOut ||
		took > time.Second+endsWithin {
		t.Errorf("by its limit, after %s: %+v, %v", took, out, err)
	}

	var cancelled answer
	for range 20 { // one that is cancelled before its tool has begun is refused, and shows nothing
		id, ch := begin(t.Context(), t, agent, search)
		running(t.Context(), t, agent, id)
		start = time.Now()
		if err := agent.CancelCall(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if cancelled = <-ch; cancelled.out.Outcome != palyra.OutcomeRefused || cancelled.out.ReasonCode != palyra.ReasonCancelled {
			break
		}
	}
	if time.Since(start) > endsWithin || cancelled.out.Outcome != palyra.OutcomeCancelled {
		t.Errorf("by cancel, after %s: %+v", time.Since(start), cancelled)
	}

	var id palyra.CallID
	for range 4 {
		id, _ = begin(t.Context(), t, agent, search)
	}
	running(t.Context(), t, agent, id)
	start = time.Now()
	said, err := d.palyra("down").CombinedOutput()
	if took := time.Since(start); err != nil || took > 2*endsWithin {
		t.Errorf("down took %s: %v\n%s", took, err, said)
	}
	<-d.done
	d.mustStart()
	d.verify()
}

// Every tool that runs in the daemon itself ends by its limit, whatever it is given.
// One without a line here is a defect of this test.
func TestEveryBuiltInToolEnds(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	hostileSearch(d)
	long := strings.Repeat("a", 200_000)
	given := map[string][]map[string]any{
		"palyra.echo":  {{"text": long[:60_000]}},
		"palyra.sleep": {{"duration_ms": 600_000}},
		"palyra.fs.search": {
			{"pattern": ".{0,1000}.{0,1000}Q"},
			{"pattern": strings.Repeat(".{0,1000}", 110) + "Q"},
			{"pattern": "(?i)" + strings.Repeat(`[^\x{100}-\x{10ffff}]*`, 40)},
			{"pattern": "a", "glob": strings.Repeat("**/*a*a*/", 25) + "b"},
		},
		"palyra.fs.list":  {{"recursive": true, "limit": 5000}},
		"palyra.fs.read":  {{"path": "bundle.js", "limit": 1 << 20}, {"path": "/dev/zero"}, {"path": "bundle.js", "offset": 1 << 39}},
		"palyra.fs.write": {{"path": "x", "content": strings.Repeat("a\n", 2<<20)}},
		"palyra.fs.edit": {
			{"path": "bundle.js", "old_string": "a", "new_string": "\n", "replace_all": true},
			{"path": "bundle.js", "old_string": long, "new_string": "x"},
		},
		"palyra.fs.apply_patch": {{"patch": strings.Repeat("--- a/bundle.js\n+++ b/bundle.js\n@@ -1,1 +1,1 @@\n-"+long[:60_000]+"\n+x\n", 60)}},
		"palyra.artifact.read":  {{"artifact_id": "01J9Z8Q2V5T6Y7W8X9A0B1C2D3", "offset": 1 << 40}},
		"palyra.http.fetch":     {{"url": "https://203.0.113.1/"}},
		"palyra.egress.allow":   {{"host": "example.invalid", "port": 443}},
		"palyra.sign":           {{"payload": long[:60_000]}},
		"palyra.git.remote": {{
			"binding": "b", "promise": long[:30_000], "key": "k", "host_key": "h", "user": "u", "at": "h:22", "path": long[:1000],
			"service": "git-receive-pack", "updates": slices.Repeat([]any{map[string]any{"ref": long[:1000]}}, 64),
		}},
		"palyra.device.pair":    {{"name": long[:200]}},
		"palyra.undo":           {{"call_id": "01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}},
		"palyra.stage.keep":     {{"agent": "01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}},
		"palyra.stage.drop":     {{"agent": "01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}},
		"palyra.process.list":   {{}},
		"palyra.process.output": {{"process_id": "01J9Z8Q2V5T6Y7W8X9A0B1C2D3", "offset": 1 << 50, "limit": 65536}},
		"palyra.process.stop":   {{"process_id": "01J9Z8Q2V5T6Y7W8X9A0B1C2D3"}},
	}
	tools, err := agent.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if tool.Tier != palyra.TierBuiltin {
			continue
		}
		if given[string(tool.Name)] == nil {
			t.Errorf("%s is given nothing", tool.Name)
		}
		for _, args := range given[string(tool.Name)] {
			r := request(d, string(tool.Name), args)
			r.Timeout, r.NoWait = time.Second, true
			start := time.Now()
			out, err := agent.Call(t.Context(), r, nil)
			if took := time.Since(start); took > time.Second+endsWithin {
				t.Errorf("%s took %s: %s %v", tool.Name, took, out.ReasonCode, err)
			}
		}
	}
}
