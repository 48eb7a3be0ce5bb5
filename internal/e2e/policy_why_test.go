package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/client/bundle"
)

// whyAnswer is what `palyra policy why --json` prints, as far as anybody relies on
// it.
type whyAnswer struct {
	Verdict    string             `json:"verdict"`
	Need       palyra.Need        `json:"need"`
	Layer      palyra.Layer       `json:"layer"`
	ReasonCode palyra.Reason      `json:"reason_code"`
	Reason     string             `json:"reason"`
	Remedy     string             `json:"remedy"`
	Policies   []palyra.PolicyHit `json:"policies"`
	Flips      []client.Flip      `json:"flips"`
	Context    map[string]any     `json:"context"`
	CallID     palyra.ID          `json:"call_id"`
}

// why asks the built command about something.
func (d *daemon) why(args ...string) whyAnswer {
	d.t.Helper()
	cmd := d.palyra(append([]string{"policy", "why", "--json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("why %v: %v\n%s", args, err, stderr.String())
	}
	var v whyAnswer
	if err := json.Unmarshal(raw, &v); err != nil {
		d.t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// willing proposes a call and says yes to everything that is asked meanwhile.
func (d *daemon) willing(r client.CallRequest) palyra.Outcome {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	person, ended := d.client(client.OperatorDoor), make(chan struct{})
	go func() {
		defer close(ended)
		_ = person.WatchApprovals(ctx, func(a palyra.Approval) error {
			if a.Pending() {
				_, _ = person.Decide(ctx, allow(a, palyra.ScopeOnce, 0))
			}
			return nil
		})
	}()
	out, err := d.client(client.AgentDoor).Call(ctx, r, nil)
	cancel()
	<-ended
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.log)
	}
	return out
}

var setting = regexp.MustCompile(`^([a-z]+\.[a-z_]+) = (.*)$`)

// obey does what a flip's change says, by its text alone, and returns the call to
// repeat.
func (d *daemon) obey(f client.Flip, r client.CallRequest) client.CallRequest {
	d.t.Helper()
	if strings.HasPrefix(f.Change, "{") {
		r.Arguments = json.RawMessage(f.Change)
		return r
	}
	var env, policies []string
	for line := range strings.Lines(f.Change) {
		line = strings.TrimSuffix(line, "\n")
		if m := setting.FindStringSubmatch(line); m != nil {
			env = append(env, variable(d.t, m[1], m[2]))
		} else if strings.HasPrefix(line, "palyra ") {
			cmd := d.palyra(strings.Fields(line)[1:]...)
			if out, err := cmd.CombinedOutput(); err != nil {
				d.t.Fatalf("%s: %v\n%s", line, err, out)
			}
		} else {
			policies = append(policies, line)
		}
	}
	if len(env) > 0 {
		d.stop()
		d.mustStart(append(slices.Clone(d.env), env...)...)
	}
	if len(policies) > 0 {
		d.amend(strings.Join(policies, "\n"))
	}
	return r
}

// variable is a setting as the environment has it.
func variable(t testing.TB, key, value string) string {
	var list []string
	if strings.HasPrefix(value, "[") {
		if err := json.Unmarshal([]byte(value), &list); err != nil {
			t.Fatal(err)
		}
		value = strings.Join(list, ",")
	}
	return "PALYRA_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_")) + "=" + strings.Trim(value, `"`)
}

// amend puts policies into force: in the place of those with the same id, or
// beside the others.
func (d *daemon) amend(text string) {
	d.t.Helper()
	person := d.client(client.OperatorDoor)
	now, err := person.Policy(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range now.Files {
		files[f.Name] = f.Text
	}
	id := regexp.MustCompile(`@id\("[^"]+"\)`).FindString(text)
	for name, old := range files {
		if strings.HasSuffix(name, ".cedar") && strings.Contains(old, id) {
			delete(files, name) // the tests' own have one policy each
		}
	}
	files["amended.cedar"] = text
	if _, _, err := person.ApplyPolicy(d.t.Context(), files, false); err != nil {
		d.t.Fatalf("%v\n%s", err, text)
	}
}

// refusal is a way to be refused, and the kind of change that must undo it.
type refusal struct {
	name   string
	env    []string
	preset string
	rule   string
	known  bool // the workspace is registered
	call   func(*daemon) client.CallRequest
	layer  palyra.Layer
	reason palyra.Reason
	flip   string
}

func shellIn(tier string, more map[string]any, line string) func(*daemon) client.CallRequest {
	return func(d *daemon) client.CallRequest {
		all := map[string]any{"command": "/bin/sh", "args": []string{"-c", line}, "tier": tier}
		maps.Copy(all, more)
		raw, _ := json.Marshal(all)
		return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Door: palyra.DoorCLI}
	}
}

func writes(d *daemon) client.CallRequest { return write(d.work, "a.txt", "x") }

func echoes(*daemon) client.CallRequest { return echo("x") }

var refusals = []refusal{
	{
		name: "nothing permits", preset: "readonly", known: true, call: writes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "policy",
	},
	{
		name: "a new workspace", preset: "ci", call: writes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "workspace",
	},
	{
		name: "a forbid", rule: `@id("no-echo") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "policy",
	},
	{
		name: "a policy that fails", rule: `@id("sum") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo") when { context.input_bytes + 9223372036854775807 > 0 };`, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyError, flip: "policy",
	},
	{
		name: "not on the list", env: []string{"PALYRA_TOOLS_ALLOWED=palyra.fs.*"}, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "config",
	},
	{
		name: "a caller that may not", env: []string{"PALYRA_TOOLS_TOOL_EXECUTE_PRINCIPALS=user:ann"}, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "config",
	},
	{
		name: "a shell", preset: "strict", known: true, call: shellIn("c", nil, "ls -la"),
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "arguments",
	},
	{
		name: "a script in tier b", known: true, layer: palyra.LayerPlan, reason: palyra.ReasonTierUnavailable, flip: "tier",
		call: func(d *daemon) client.CallRequest {
			raw, _ := json.Marshal(map[string]any{"script": "ls", "tier": "b"})
			return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Door: palyra.DoorCLI}
		},
	},
	{
		name: "a tier that was not tried out", env: []string{"PALYRA_PROCESS_POSTURE=require"}, known: true, call: shellIn("b", nil, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonPosture, flip: "config",
	},
	{
		name: "a host in tier b", known: true, call: shellIn("b", map[string]any{"egress": []string{"example.org:443"}}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonEgressDenied, flip: "host",
	},
	{
		name: "a host that is not allowed", env: []string{"PALYRA_EGRESS_ALLOWED_HOSTS=example.org:443"}, known: true,
		call:  shellIn("c", map[string]any{"egress": []string{"example.com:443"}}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonEgressDenied, flip: "config",
	},
	{
		name: "a time limit", known: true, call: shellIn("b", map[string]any{"timeout_ms": 300}, "sleep 1"),
		layer: palyra.LayerLimit, reason: palyra.ReasonTimedOut, flip: "limit",
	},
	{
		name: "a limit of its own", known: true, call: shellIn("b", map[string]any{"limits": map[string]any{"emitted_bytes": 4096}}, "head -c 100000 /dev/zero"),
		layer: palyra.LayerLimit, reason: palyra.ReasonQuotaExceeded, flip: "limit",
	},
	{
		name: "a configured limit", env: []string{"PALYRA_PROCESS_EMITTED_BYTES=4096"}, known: true, call: shellIn("b", nil, "head -c 6000 /dev/zero"),
		layer: palyra.LayerLimit, reason: palyra.ReasonQuotaExceeded, flip: "limit",
	},
	{
		name: "nobody waited", known: true, layer: palyra.LayerApproval, reason: palyra.ReasonApprovalNotAwaited, flip: "answer",
		call: func(d *daemon) client.CallRequest {
			r := write(d.work, "a.txt", "x")
			r.NoWait = true
			return r
		},
	},
}

// Whatever refuses a call: why says so in the words of the refusal, and what it
// says would turn it, done as it says, turns it.
func TestEveryRefusalCanBeTurned(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) { c.turn(t) })
	}
}

func (c refusal) prepared(t *testing.T) *daemon {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(c.env...)
	person := d.client(client.OperatorDoor)
	if c.known {
		if _, err := person.AddWorkspace(t.Context(), d.work, ""); err != nil {
			t.Fatal(err)
		}
	}
	if c.preset == "" && c.rule == "" {
		return d
	}
	preset := c.preset
	if preset == "" {
		preset = "default"
	}
	files, err := bundle.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	if c.rule != "" {
		files["own.cedar"] = c.rule
	}
	if _, _, err := person.ApplyPolicy(t.Context(), files, false); err != nil {
		t.Fatal(err)
	}
	return d
}

func (c refusal) turn(t *testing.T) {
	d := c.prepared(t)
	r := c.call(d)
	out := d.willing(r)
	if out.Layer != c.layer || out.ReasonCode != c.reason {
		t.Fatalf("%s %s: %s", out.Layer, out.ReasonCode, out.Reason)
	}
	w := d.why(string(out.CallID))
	if w.Layer != out.Layer || w.ReasonCode != out.ReasonCode || w.Reason != out.Reason || w.Remedy != out.Remedy || w.Remedy == "" {
		t.Errorf("refused with %s %s\n%s\n%s\nand explained with %s %s\n%s\n%s",
			out.Layer, out.ReasonCode, out.Reason, out.Remedy, w.Layer, w.ReasonCode, w.Reason, w.Remedy)
	}
	i := slices.IndexFunc(w.Flips, func(f client.Flip) bool { return f.Kind == c.flip })
	if i < 0 {
		t.Fatalf("no change of kind %s: %+v", c.flip, w.Flips)
	}
	f := w.Flips[i]
	if f.Verified == (c.layer == palyra.LayerLimit || f.Kind == "config" && c.layer != palyra.LayerPolicy) {
		t.Errorf("tried: %v, %+v", f.Verified, f)
	}
	again := d.obey(f, r)
	again.NoWait = false
	if out := d.willing(again); out.Outcome != palyra.OutcomeFinished || out.Layer != "" || out.ExitCode != 0 {
		t.Errorf("after %+v: %s %s %s %s %d %s", f, out.Outcome, out.Layer, out.ReasonCode, out.Reason, out.ExitCode, out.Stderr)
	}
}

// A host that a run was refused is explained though the run ended by itself.
func TestWhyOfARefusedHost(t *testing.T) {
	d, world := newDaemon(t), newWorld(t)
	d.ownWork()
	d.guarded(world, "PALYRA_EGRESS_ASK=off")
	at := world.web
	r := d.inRoom(nil, "/usr/bin/curl", "-sS", "--max-time", "20", "http://"+at+"/")
	out := d.willing(r)
	if out.Outcome != palyra.OutcomeFinished || out.ExitCode == 0 && strings.Contains(out.Stdout, "hello") {
		t.Fatalf("%+v", out)
	}
	w := d.why(string(out.CallID))
	if w.Layer != palyra.LayerEgress || w.ReasonCode != palyra.ReasonEgressDenied || !strings.Contains(w.Remedy, at) || len(w.Flips) == 0 || w.Flips[0].Kind != "host" || !w.Flips[0].Verified {
		t.Fatalf("%+v", w)
	}
	if out := d.willing(d.obey(w.Flips[0], r)); !strings.Contains(out.Stdout, "hello from "+at) {
		t.Errorf("%+v", out)
	}
}

// A grant that another call spent first refuses; proposed again and answered, the
// call runs.
func TestWhyOfASpentGrant(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	for round := range 60 {
		r := d.program("/bin/true", fmt.Sprint(round))
		a, _, ch, err := question(t.Context(), agent, person, r)
		if err != nil {
			t.Fatal(err)
		}
		yes := allow(a, palyra.ScopeSession, 0)
		yes.Uses = 2 // the call that asked, and one more
		if _, err := person.Decide(t.Context(), yes); err != nil {
			t.Fatal(err)
		}
		<-ch
		r.NoWait = true
		var all []<-chan answer
		for range 8 {
			all = append(all, propose(t.Context(), agent, r))
		}
		for _, ch := range all {
			if end := <-ch; end.out.Layer == palyra.LayerGrant {
				turnGrant(t, d, r, end.out)
				return
			}
		}
	}
	t.Fatal("no call lost its grant to another")
}

func turnGrant(t *testing.T, d *daemon, r client.CallRequest, out palyra.Outcome) {
	t.Helper()
	w := d.why(string(out.CallID))
	if w.Layer != palyra.LayerGrant || w.Reason != out.Reason || w.Remedy != out.Remedy || len(w.Flips) == 0 || !w.Flips[0].Verified || w.Flips[0].Becomes != palyra.Ask {
		t.Fatalf("%+v for %+v", w, out)
	}
	r.NoWait = false
	if out := d.willing(d.obey(w.Flips[0], r)); out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
}

// A plan that changed after the answer does not run; proposed again it does.
func TestWhyOfAChangedPlan(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	d.put("operand.sh", "echo one\n")
	r := d.program("/bin/sh", "operand.sh")
	a, _, ch, err := question(t.Context(), agent, person, r)
	if err != nil {
		t.Fatal(err)
	}
	d.put("operand.sh", "echo two\n")
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	end := <-ch
	if end.out.Layer != palyra.LayerTier || end.out.ReasonCode != palyra.ReasonPlanChanged {
		t.Fatalf("%+v, %v", end.out, end.err)
	}
	w := d.why(string(a.ID)) // by the approval's id
	if w.CallID != end.out.CallID || w.Layer != palyra.LayerTier || w.Reason != end.out.Reason || w.Remedy != end.out.Remedy || len(w.Flips) == 0 || !w.Flips[0].Verified {
		t.Fatalf("%+v for %+v", w, end.out)
	}
	if out := d.willing(d.obey(w.Flips[0], r)); out.Outcome != palyra.OutcomeFinished || out.Stdout != "two\n" {
		t.Errorf("%+v", out)
	}
}

// What is only thought of is answered as it is when it is done.
func TestWhyIsWhatExecDoes(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	if _, err := d.client(client.OperatorDoor).AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why, exec []string
		verdict   string
	}{
		{[]string{"--tier", "c", "--", "ls", "-la"}, []string{"--tier", "c", "--", "ls", "-la"}, "allow"},
		{[]string{"--tier", "b", "--", "ls"}, []string{"--tier", "b", "--", "ls"}, "ask"},
		{[]string{"--tier", "c", "--", "rm", "-rf", "/etc"}, []string{"--tier", "c", "--", "rm", "-rf", "/etc"}, "ask"},
	} {
		w := d.why(append([]string{"--workspace", d.work}, c.why...)...)
		if w.Verdict != c.verdict || w.Context["tool"] != "palyra.process.run" || w.CallID != "" || len(w.Policies) == 0 || w.Policies[0].File == "" || w.Policies[0].Line == 0 {
			t.Errorf("%v: %+v", c.why, w)
		}
		raw, _ := d.palyra(append([]string{"exec", "--json", "--no-wait", "--no-stdin", "--workspace", d.work}, c.exec...)...).Output()
		var out palyra.Outcome
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if done := d.why(string(out.CallID)); done.Verdict != w.Verdict {
			t.Errorf("%v: %s when done, %s when thought of", c.exec, done.Verdict, w.Verdict)
		}
	}
	if w := d.why("--workspace", d.work, "--script", "ls | wc -l"); w.Verdict == "deny" || w.Layer == palyra.LayerPlan {
		t.Errorf("%+v", w)
	}
}

// Many questions at once are answered quickly, in order.
func TestWhyBatch(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	const lines = 600
	var text strings.Builder
	for n := range lines {
		switch n % 3 {
		case 0:
			fmt.Fprintf(&text, `{"argv":["ls","-la","%d"],"tier":"c"}`+"\n", n)
		case 1:
			fmt.Fprintf(&text, `{"script":"git push --force origin %d"}`+"\n", n)
		default:
			fmt.Fprintf(&text, `{"tool":"palyra.fs.write","input":{"path":"%d","content":"x"}}`+"\n", n)
		}
	}
	const most = 10 * time.Millisecond // 200 a second by two processors, whatever else they do
	best := time.Hour
	for try := 0; try < 3 && best > most; try++ { // a processor that others use as well is slower by itself
		best = min(best, askedInABatch(t, d, text.String(), lines))
	}
	if best > most {
		t.Errorf("%s of a processor for one answer, at most %s", best, most)
	}
}

// askedInABatch checks the answers to a batch, and says what one took.
func askedInABatch(t *testing.T, d *daemon, text string, lines int) time.Duration {
	t.Helper()
	cmd := d.palyra("policy", "why", "--batch", "-", "--workspace", d.work)
	cmd.Stdin = strings.NewReader(text)
	start, before := time.Now(), processorTime(t, d.cmd.Process.Pid)
	raw, err := cmd.Output()
	took, cost := time.Since(start), processorTime(t, d.cmd.Process.Pid)-before
	if err != nil {
		t.Fatalf("%v %s", err, err.(*exec.ExitError).Stderr)
	}
	got := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(got) != lines {
		t.Fatalf("%d answers", len(got))
	}
	for n, line := range got {
		var v whyAnswer
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.Verdict != "ask" || !strings.Contains(fmt.Sprint(v.Context["command_line"], v.Context["writes"]), fmt.Sprint(n)) {
			t.Fatalf("%d: %v\n%s", n, err, line)
		}
	}
	each := (cost + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()) / time.Duration(lines)
	t.Logf("%.0f a second, %s of a processor each", float64(lines)/took.Seconds(), each)
	return each
}

// processorTime is what a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100 // the kernel counts in hundredths for everybody
}
