package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// The machine that a daemon runs on and another one: two homes, or two networks
// joined by a wire. The other is paired by the PIN at a terminal and by the text of
// the QR code, and lists, watches and decides what is asked on the first.
func TestADeviceDecidesFromElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("two homes", func(t *testing.T) {
		d := newDaemon(t)
		d.mustStart("PALYRA_LIMITS_LOGIN_PER_MINUTE=100")
		twoPairings(t, d, nil)
	})
	t.Run("two networks", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("UNPROVEN HERE: an ordinary user cannot join two network namespaces")
		}
		here, there := wire(t)
		d := newDaemon(t)
		d.env = []string{"PALYRA_CONSOLE_LISTEN=127.0.0.1:7142", "PALYRA_REMOTE_LISTEN=:7443"} // nobody else is in there
		d.command(append(here, bin(t, "palyrad"))...)
		if !d.serving() {
			t.Fatalf("the daemon died:\n%s", d.log)
		}
		twoPairings(t, d, there)
	})
}

// wire makes two networks with a wire between them and returns what runs a command
// in each. They go with the processes that hold them.
func wire(t *testing.T) (here, there []string) {
	t.Helper()
	hold := func() (int, []string) {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd.Process.Pid, []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", cmd.Process.Pid)}
	}
	_, here = hold()
	far, there := hold()
	for _, step := range [][]string{
		append(here, "ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", fmt.Sprint(far)),
		append(here, "ip", "address", "add", "192.0.2.1/24", "dev", "near"),
		append(there, "ip", "address", "add", "192.0.2.2/24", "dev", "far"),
		append(here, "ip", "link", "set", "near", "up"), append(here, "ip", "link", "set", "lo", "up"),
		append(there, "ip", "link", "set", "far", "up"), append(there, "ip", "link", "set", "lo", "up"),
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
	}
	return here[:len(here):len(here)], there[:len(there):len(there)]
}

func twoPairings(t *testing.T, d *daemon, there []string) {
	typed, scanned := newElsewhere(t), newElsewhere(t)
	typed.in, scanned.in = there, there
	pin := pairAtTerminals(t, d, typed)
	code := pairByText(t, d, scanned)
	var list struct {
		Devices []palyra.Device `json:"devices"`
	}
	if err := json.Unmarshal([]byte((&elsewhere{t: t, home: d.home}).must("device", "list", "--json")), &list); err != nil ||
		len(list.Devices) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, m := range []*elsewhere{typed, scanned} {
		if there != nil && !strings.HasPrefix(list.Devices[i].Address, "192.0.2.2:") {
			t.Errorf("it paired from %s", list.Devices[i].Address)
		}
		decidesFrom(t, d, m, list.Devices[i])
	}
	d.verify()
	_, token, _ := strings.Cut(code, "&t=")
	d.nowhere(pin, pin[:4]+" "+pin[4:], token, code, typed.key(), scanned.key())
}

// pairAtTerminals is two people, or one who goes from one machine to the other.
func pairAtTerminals(t *testing.T, d *daemon, m *elsewhere) (pin string) {
	t.Helper()
	owner := &elsewhere{t: t, home: d.home}
	shows := atTerminal(t, owner.command("device", "pair"))
	at := shows.find(`palyra device join (\S+)`)[1]
	four := shows.find(`PIN\s+(\d{4}) (\d{4})`)
	if len(m.in) > 0 {
		at = strings.TrimSuffix(at, ":7443") // nobody types that
	}
	types := atTerminal(t, m.command("device", "join", at, "--as", first, "--name", "typed"))
	types.secret("PIN [a-z ]*daemon[a-z ]*: ")
	types.enter(four[1] + " " + four[2])
	there := types.find(`This device's key is ([0-9A-F ]+)`)[1]
	if here := shows.find(`Its key is\s+([0-9A-F ]+)`)[1]; here != there || len(here) < 32 {
		t.Errorf("one side shows the key %q, the other %q", here, there)
	}
	shows.find(`Type allow`)
	shows.enter("allow")
	if code, said := types.end(); code != 0 || strings.Contains(said, four[1]) || strings.Contains(said, four[2]) {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	if code, said := shows.end(); code != 0 || !strings.Contains(said, "Paired: typed") {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	return four[1] + four[2]
}

// pairByText is two programs; the code goes from one to the other by a pipe.
func pairByText(t *testing.T, d *daemon, m *elsewhere) string {
	t.Helper()
	owner := &elsewhere{t: t, home: d.home}
	shows := owner.command("device", "pair", "--json")
	out, err := shows.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shows.Start(); err != nil {
		t.Fatal(err)
	}
	reports := json.NewDecoder(out)
	var now palyra.Pairing
	if err := reports.Decode(&now); err != nil || now.Code == "" {
		t.Fatalf("%+v, %v", now, err)
	}
	code := now.Code
	var said bytes.Buffer
	scans := m.command("device", "join", "--code", "-", "--as", first, "--name", "scanned")
	scans.Stdin, scans.Stdout, scans.Stderr = strings.NewReader(code+"\n"), &said, &said
	if err := scans.Start(); err != nil {
		t.Fatal(err)
	}
	for now.Approval == "" {
		now = palyra.Pairing{}
		if err := reports.Decode(&now); err != nil {
			t.Fatalf("nobody was asked: %v", err)
		}
		if now.Code != "" || now.PIN != "" {
			t.Error("the code is told again")
		}
	}
	d.secretsOf(shows.Process.Pid, code)
	d.secretsOf(scans.Process.Pid, code)
	a, err := d.client(client.OperatorDoor).Approval(t.Context(), now.Approval)
	if err != nil {
		t.Fatal(err)
	}
	if a.SubjectType != palyra.SubjectPairing {
		t.Errorf("asked about %s", a.SubjectType)
	}
	owner.must("approvals", "decide", string(a.ID), "allow", "--digest", string(a.PlanDigest))
	if err := scans.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if err := shows.Wait(); err != nil {
		t.Fatal(err)
	}
	return code
}

// secretsOf fails the test when a process has a code among its arguments, where
// every other process reads it.
func (d *daemon) secretsOf(pid int, code string) {
	d.t.Helper()
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		d.t.Fatal(err)
	}
	if _, token, _ := strings.Cut(code, "&t="); strings.Contains(string(args), token) {
		d.t.Errorf("process %d was given the code: %q", pid, args)
	}
}

// decidesFrom has an agent ask here and a device answer there, all of it with the
// built command.
func decidesFrom(t *testing.T, d *daemon, m *elsewhere, dev palyra.Device) {
	t.Helper()
	var said bytes.Buffer
	watch := m.command("--remote", first, "approvals", "watch", "--json")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	watch.Stderr = &said
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watch.Process.Kill()
		_ = watch.Wait()
	}()
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, dev.Name+".txt", "x"))
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	var a palyra.Approval
	if err := json.Unmarshal([]byte(line), &a); err != nil || !a.Pending() {
		t.Fatalf("%v: %s", err, line)
	}
	if list := m.must("--remote", first, "approvals", "list", "--pending"); !strings.Contains(list, string(a.ID)) {
		t.Errorf("listed:\n%s", list)
	}
	m.must("--remote", first, "approvals", "decide", string(a.ID), "allow", "--digest", string(a.PlanDigest))
	var r answer
	select {
	case r = <-ch:
	case <-time.After(waitMost):
		t.Fatal("the call does not go on")
	}
	if r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	settled, err := d.client(client.OperatorDoor).Approval(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if v := settled.Decision.Votes; len(v) != 1 || v[0].Signature.Intent.KeyID != dev.KeyID || v[0].Separation != palyra.SeparationDevice ||
		v[0].By != dev.Principal {
		t.Errorf("the decision: %+v", settled.Decision)
	}
	checkEvidence(t, d, d.client(client.OperatorDoor), r.out)
	pinnedEvidence(t, d, r.out, dev)
}

// pinnedEvidence has both verifiers hold an outcome against the device's own key.
func pinnedEvidence(t *testing.T, d *daemon, out palyra.Outcome, dev palyra.Device) {
	t.Helper()
	raw, err := out.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file, keys := filepath.Join(d.work, "..", "outcome.json"), filepath.Join(d.work, "..", "trust.json")
	save(t, file, raw)
	other := "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for name, verify := range map[string]func(key string) *exec.Cmd{
		"palyra attest verify": func(key string) *exec.Cmd {
			return exec.Command(bin(t, "palyra"), "attest", "verify", file, "--json", "--key", keys, "--operator-key", key)
		},
		"palyra-verify": func(key string) *exec.Cmd {
			return exec.Command(bin(t, "palyra-verify"), "--json", "--key", keys, "--operator-key", key, file)
		},
	} {
		said, err := verify(dev.PublicKey).CombinedOutput()
		var report struct {
			OK         bool              `json:"ok"`
			Separation palyra.Separation `json:"approver_separation"`
		}
		if json.Unmarshal(said, &report) != nil || err != nil || !report.OK || report.Separation != palyra.SeparationDevice {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
		if said, err := verify(other).CombinedOutput(); err == nil {
			t.Errorf("%s takes it for the decision of another key:\n%s", name, said)
		}
	}
}
