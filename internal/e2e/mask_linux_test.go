//go:build linux

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/agent/agenttest"
)

// forms are the texts that may stand nowhere because of a value: as it is, in base64 wherever it stands in what was
// encoded, in hexadecimal, and in an address.
func forms(value string) []string {
	all := []string{
		value, hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))),
		url.QueryEscape(value), url.PathEscape(value),
	}
	for skip := range 3 { // whole groups of three
		part := value[skip : skip+(len(value)-skip)/3*3]
		all = append(all, base64.StdEncoding.EncodeToString([]byte(part)), base64.URLEncoding.EncodeToString([]byte(part)))
	}
	return all
}

// sieve looks for values in what leaves.
type sieve struct {
	t     *testing.T
	forms []string
	seen  int // bytes
}

func (s *sieve) look(where string, text []byte) {
	s.t.Helper()
	s.seen += len(text)
	for _, f := range s.forms {
		if i := bytes.Index(text, []byte(f)); i >= 0 {
			s.t.Errorf("%s has %q: …%q…", where, f, text[max(0, i-60):min(len(text), i+len(f)+20)])
			return
		}
	}
}

func (s *sieve) json(where string, v any) {
	s.t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		s.t.Fatal(err)
	}
	s.look(where, b.Bytes())
}

// secretFiles puts secrets into the vault and, in every form, into files of the workspace.
func (d *daemon) secretFiles(n int) []string {
	d.t.Helper()
	values := make([]string, n)
	files := map[string]string{}
	for i := range values {
		raw := make([]byte, 18)
		_, _ = rand.Read(raw)
		values[i] = fmt.Sprintf("tok%d=%s&/ +", i, base64.RawStdEncoding.EncodeToString(raw)) + "end"
		d.mustVault(values[i], "put", fmt.Sprintf("token-%d", i), "--from-stdin")
		files["raw.txt"] += fmt.Sprintf("TOKEN_%d: %s\n", i, values[i])
		files["base64.txt"] += base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", i%3)+":"+values[i])) + "\n"
		files["hex.txt"] += hex.EncodeToString([]byte(values[i])) + " " + fmt.Sprintf("%X", values[i]) + "\n"
		files["url.txt"] += "?a=" + url.QueryEscape(values[i]) + " /" + url.PathEscape(values[i]) + "\n"
	}
	for name, text := range files {
		d.write(filepath.Join(d.work, name), text, 0o644)
	}
	return values
}

// called has an agent make a call, which a person allows where policy asks, and returns its outcome.
func (d *daemon) called(s *sieve, where string, r client.CallRequest) palyra.Outcome {
	d.t.Helper()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	out, err := agent.Call(d.t.Context(), r, func(e client.CallEvent) {
		s.json(where+", as it goes", e)
		if e.Output != nil {
			s.look(where+", live", e.Output.Data)
		}
		if e.ApprovalRequested == nil {
			return
		}
		a, err := person.Approval(d.t.Context(), e.ApprovalRequested.ApprovalID)
		if err != nil {
			d.t.Error(err)
			return
		}
		s.json(where+", its question", a)
		s.look(where+", its question shown", []byte(d.mustPalyra("approvals", "show", string(a.ID))))
		if _, err := person.Decide(d.t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
			d.t.Error(where, err)
		}
	})
	if err != nil {
		s.look(where+", its error", []byte(err.Error()))
		return palyra.Outcome{Reason: err.Error()}
	}
	s.json(where, out)
	return out
}

// Values of the vault come out of no program, no tool, no question and no record, however they are written.
func TestKnownValuesStandNowhere(t *testing.T) {
	model := agenttest.New(t)
	d := newDaemon(t)
	d.ownWork()
	d.withModel("openai", model)
	d.mustStart(unlimited...)
	d.inWorkspace()
	values := d.secretFiles(50)
	s := &sieve{t: t}
	for _, v := range values {
		s.forms = append(s.forms, forms(v)...)
	}
	d.stop() // what was put before the daemon started is known too
	d.mustStart(unlimited...)
	d.printAndRead(s, values)
	d.proposeWith(s, values)
	model.Add(
		agenttest.Reply{
			Text: []string{"It is " + values[0][:9], values[0][9:] + ", I think.\n"}, Piece: 7,
			Calls: []agenttest.ToolCall{{Name: "palyra_echo", Args: []string{fmt.Sprintf(`{"text":%q}`, values[1])}}},
		},
		agenttest.Reply{Text: []string{"Done."}},
	)
	run, tape := d.told(d.askModel("say " + values[2]).ID)
	if run.State != palyra.RunDone || !strings.Contains(said(tape), "It is [secret token-0], I think.") {
		t.Errorf("the run: %+v, %q\n%s", run, said(tape), d.log)
	}
	s.json("the tape", tape)
	for _, r := range model.Seen() {
		s.look("what the model was sent", []byte(r.Raw))
	}
	d.recordsHave(s)
	if out := d.mustVault("", "get", "token-7"); out != values[7]+"\n" {
		t.Errorf("the owner is shown %q", out)
	}
	d.verify()
	d.stop()
	s.look("the log", d.log.Bytes())
	files := 0
	err := filepath.Walk(d.home, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		files++
		s.look(path, raw)
		return err
	})
	if err != nil || files < 5 || s.seen < 1<<20 {
		t.Errorf("%d files, %d bytes, %v", files, s.seen, err)
	}
}

// A call with values in it that waits for an answer does not outlive its daemon: nobody has its arguments any more.
func TestMaskedCallsEndWithTheirDaemon(t *testing.T) {
	t.Parallel()
	const value = "a value that only the daemon's memory has"
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	d.inWorkspace()
	d.mustVault(value, "put", "token", "--from-stdin")
	a, id, _, err := question(t.Context(), d.client(client.AgentDoor), d.client(client.OperatorDoor), write(d.work, "new.txt", value))
	if err != nil || !a.Plan.Masked || strings.Contains(a.Prompt.Diff, value) {
		t.Fatalf("%+v, %v", a, err)
	}
	d.keepsNot(value)
	d.kill()
	d.mustStart()
	if _, err := d.client(client.OperatorDoor).Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err == nil {
		t.Error("it was allowed")
	}
	if out := d.mustPalyra("calls", "show", string(id)); !strings.Contains(out, "cancelled") {
		t.Errorf("the call: %s", out)
	}
	if _, err := os.Stat(filepath.Join(d.work, "new.txt")); err == nil {
		t.Error("it ran")
	}
	d.verify()
}

// printAndRead has programs and tools bring values out of files.
func (d *daemon) printAndRead(s *sieve, values []string) {
	d.t.Helper()
	for _, tier := range []string{"b", "c"} {
		raw, _ := json.Marshal(map[string]any{
			"tier": tier, "command": "/bin/sh",
			"args": []string{"-c", "cat raw.txt base64.txt hex.txt url.txt; base64 raw.txt | tr -d '\\n'; head -c 200 raw.txt >&2"},
		})
		out := d.called(s, "tier "+tier, client.CallRequest{
			Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI,
		})
		if n := strings.Count(out.Stdout, "[secret token-"); out.ExitCode != 0 || n < 7*len(values) ||
			!strings.Contains(out.Stdout, "TOKEN_3: [secret token-3]\n") {
			d.t.Errorf("tier %s: %d values are masked: %+v", tier, n, out)
		}
	}
	for _, name := range []string{"raw.txt", "base64.txt", "hex.txt", "url.txt"} {
		raw, _ := json.Marshal(map[string]string{"path": name})
		out := d.called(s, "fs.read "+name, client.CallRequest{
			Tool: "palyra.fs.read", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI,
		})
		if n := strings.Count(string(out.Output), "[secret token-"); n < len(values) || !json.Valid(out.Output) {
			d.t.Errorf("%s: %d values are masked: %s", name, n, out.Output)
		}
	}
	out, code := d.typed("exec", "-w", d.work, "--no-wait", "--", "cat", "raw.txt")
	s.look("palyra exec", []byte(out))
	if code != 0 || !strings.Contains(out, "[secret token-9]") {
		d.t.Errorf("palyra exec: %d %s", code, out)
	}
}

// proposeWith has an agent propose calls with values in all that it can choose.
func (d *daemon) proposeWith(s *sieve, values []string) {
	d.t.Helper()
	if out := d.called(s, "echo", echo("it is "+values[3])); !strings.Contains(string(out.Output), "[secret token-3]") {
		d.t.Errorf("echo: %+v", out)
	}
	d.called(s, "fs.write", write(d.work, "new.env", "A="+values[4]+"\nB="+base64.StdEncoding.EncodeToString([]byte(values[5]))+"\n"))
	if b, err := os.ReadFile(filepath.Join(d.work, "new.env")); err != nil || !strings.Contains(string(b), values[4]) {
		d.t.Errorf("what was written is not what was proposed: %q, %v", b, err)
	}
	out := d.called(s, "argv", d.program("/usr/bin/printf", "%s", values[6]))
	if out.Stdout != "[secret token-6]" {
		d.t.Errorf("argv: %+v", out)
	}
	out = d.called(s, "argv's length", d.shell("printf %s '"+values[6]+"' | wc -c"))
	if strings.TrimSpace(out.Stdout) != fmt.Sprint(len(values[6])) {
		d.t.Errorf("the program got something else: %+v", out)
	}
	unknown := echo("x")
	unknown.Tool, unknown.Key = palyra.ToolName("no."+values[8]), "key "+values[9]
	d.called(s, "an unknown tool", unknown)
	elsewhere := write(filepath.Join(d.work, strings.ReplaceAll(values[10], "/", "")), values[11], "x")
	d.called(s, "a workspace that is not there", elsewhere)
	for _, args := range [][]string{
		{"calls", "show", values[12]}, {"approvals", "show", values[13]}, {"tools", "show", values[14]}, {"runs", "show", values[15]},
	} {
		out, code := d.typed(args...)
		s.look("palyra "+args[0], []byte(out))
		if code == 0 {
			d.t.Errorf("palyra %s: %s", args[0], out)
		}
	}
}

// recordsHave looks through what people are shown of the records.
func (d *daemon) recordsHave(s *sieve) {
	d.t.Helper()
	for _, e := range d.entries() {
		s.json("the journal", e)
		if id, ok := e.Body["call_id"].(string); ok && e.Kind == "call.proposed" {
			s.look("calls show "+id, []byte(d.mustPalyra("calls", "show", id, "--json")))
		}
		if id, ok := e.Body["approval_id"].(string); ok && e.Kind == "approval.requested" {
			s.look("approvals show "+id, []byte(d.mustPalyra("approvals", "show", id, "--json")))
		}
	}
	for _, args := range []string{
		"approvals list --json", "calls list --json", "runs list --json", "journal tail --json", "journal export",
		"approvals export",
	} {
		s.look(args, []byte(d.mustPalyra(strings.Fields(args)...)))
	}
}
